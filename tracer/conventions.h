/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of the environment that C needs too; conventions.hpp has them all and says what they mean. */
#pragma once

#define POLTER_ENV_EXPERIMENT "POLTER_EXPERIMENT"
#define POLTER_ENV_LAUNCHER "POLTER_LAUNCHER" /* set in an MPI's launcher by tracer/dispatch: tells its job from others */
#define POLTER_ENV_FORWARD "POLTER_FORWARD"   /* for it: the names that Open MPI's launcher must give to other nodes */

/* What tells that Open MPI's launcher may start ranks on other nodes: options of its own, variables of batch systems. */
#define POLTER_HOST_OPTIONS "-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-rf", "--rankfile"
#define POLTER_BATCH_VARIABLES \
    "SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_HOSTS", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile"
