#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank that no exporter takes: the trace says which, the others stay measured, and its noise is unknown, not zero."""
import sys
import unittest

import polter_run as p

UNMEASURED = 3
# The last rank asks a daemon that is not there.
WRAPPER = f"""#!/bin/sh
if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = {UNMEASURED} ]; then
    export POLTER_EXPORTER=bpf POLTER_SOCKET=/nonexistent/polter.socket
fi
exec "$@"
"""


class Unmeasured(unittest.TestCase):
    def test_one_rank(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour=flavour), p.folder() as folder:
                wrapper = folder / "wrapper"
                wrapper.write_text(WRAPPER)
                wrapper.chmod(0o755)
                job = [*p.launcher(flavour, 4), wrapper, p.PROGRAMS / flavour / "collectives"]
                run = p.Run(job, folder / "e", ["--mpi", flavour])
                self.assertEqual(run.code, 0, run.error)
                result = run.result
                exporter = result["provenance"]["EXPORTER"]
                self.assertNotEqual(exporter, "none")
                self.assertEqual(result["provenance"]["EXPORTER_BY_RANK"], ";".join(sorted([f"{exporter}:0-2", "none:3"])))
                self.assertEqual([rank["measured_by"] for rank in result["per_rank"]], [exporter] * 3 + ["none"])
                self.assertIsNone(result["per_rank"][UNMEASURED]["local_noise_ns"])
                for rank in result["per_rank"][:UNMEASURED]:
                    self.assertIsInstance(rank["local_noise_ns"], int)
                self.assertTrue(result["conditional"])
                lines = [w for w in result["warnings"] if "1 of 4 ranks were not measured (3)" in w]
                self.assertEqual(len(lines), 2, result["warnings"])  # why, and what it means
                self.assertFalse([w for w in result["warnings"] if "without an exporter" in w])
                text = p.command([p.POLTER, "replay", folder / "e"]).stdout
                self.assertIn(f"measured by {exporter} (3 of 4 ranks)", text)
                self.assertEqual([line.split()[0] for line in text.splitlines() if "not measured  " in line + "  " and line.split()[0].isdigit()], ["3"], text)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI program was built")
        sys.exit(77)
    unittest.main()
