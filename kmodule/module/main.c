// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Loading and unloading. */
#include <linux/cred.h>
#include <linux/module.h>

#include "polter.h"

static int names_gid = -1;
module_param(names_gid, int, 0444);
MODULE_PARM_DESC(names_gid, "group whose members' pages name the tasks of other users; root's always do (-1: no group)");

bool polter_user_sees_names(void)
{
	if (uid_eq(current_euid(), GLOBAL_ROOT_UID))
		return true;
	return names_gid >= 0 && in_egroup_p(make_kgid(&init_user_ns, names_gid));
}

static int __init polter_init(void)
{
	int error = polter_find_tracepoints();

	if (error) {
		pr_err("polter: the kernel lacks a scheduler tracepoint that is needed (CONFIG_TRACEPOINTS)\n");
		return error;
	}
	error = polter_cpus_init();
	if (error)
		return error;
	error = polter_registry_init();
	if (error)
		goto no_registry;
	error = polter_device_init();
	if (error)
		goto no_device;
	return 0;

no_device:
	polter_registry_exit();
no_registry:
	polter_cpus_exit();
	return error;
}

static void __exit polter_exit(void)
{
	polter_device_exit();
	polter_registry_exit();
	polter_cpus_exit();
}

module_init(polter_init);
module_exit(polter_exit);
MODULE_DESCRIPTION("Gives every registered thread its own operating system noise in a page");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(POLTER_MODULE_VERSION);
