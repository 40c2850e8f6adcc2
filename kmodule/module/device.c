// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* /dev/polter: what device.h says, checked and passed on. */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "device.h"
#include "polter.h"

static long status(void __user *argument)
{
	struct polter_device_status s = {
		.version = POLTER_DEVICE_VERSION,
		.page_size = POLTER_PAGE_SIZE,
		.accounts_seen = polter_accounts_seen(),
		.accounts_net = polter_accounts_seen(),
		.unseen_switches = polter_unseen_switches(),
		.pages = polter_pages_count(),
		.product_version = POLTER_MODULE_VERSION,
	};

	polter_registry_count(&s.processes, &s.threads);
	return copy_to_user(argument, &s, sizeof(s)) ? -EFAULT : 0;
}

static long process(const void __user *argument)
{
	struct polter_device_process p;

	if (copy_from_user(&p, argument, sizeof(p)))
		return -EFAULT;
	if (p.version != POLTER_DEVICE_VERSION)
		return -EPROTO;
	if (p.reserved[0] || p.reserved[1])
		return -EINVAL;
	return polter_register_process(p.job, p.threads);
}

static long thread(polter_u32 __user *argument)
{
	unsigned int slot;
	int error = polter_register_thread(&slot);

	if (error)
		return error;
	if (!put_user(slot, argument))
		return 0;
	polter_leave(slot);
	return -EFAULT;
}

static long leave(const polter_u32 __user *argument)
{
	polter_u32 slot;

	return get_user(slot, argument) ? -EFAULT : polter_leave(slot);
}

static long device_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	void __user *user = (void __user *)argument;

	switch (request) {
	case POLTER_DEVICE_STATUS:
		return status(user);
	case POLTER_DEVICE_PROCESS:
		return process(user);
	case POLTER_DEVICE_THREAD:
		return thread(user);
	case POLTER_DEVICE_LEAVE:
		return leave(user);
	case POLTER_DEVICE_END:
		return polter_end();
	case POLTER_DEVICE_ALIVE:
		return polter_is_registered() ? 0 : -ESRCH;
	default:
		return -ENOTTY;
	}
}

/* A mapping of a file that is not open for writing cannot become writable later. */
static int device_open(struct inode *inode, struct file *file)
{
	return file->f_mode & FMODE_WRITE ? -EACCES : nonseekable_open(inode, file);
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long pages = POLTER_PAGE_SIZE >> PAGE_SHIFT;

	BUILD_BUG_ON(POLTER_PAGE_SIZE % PAGE_SIZE);
	if (vma->vm_flags & (VM_WRITE | VM_EXEC) || !(vma->vm_flags & VM_MAYSHARE))
		return -EACCES;
	if (vma->vm_end - vma->vm_start != POLTER_PAGE_SIZE || vma->vm_pgoff % pages || vma->vm_pgoff / pages > UINT_MAX)
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	return polter_map(vma, vma->vm_pgoff / pages);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = device_mmap,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "polter",
	.fops = &operations,
	.mode = 0444, /* any user may register their own process */
};

int polter_device_init(void)
{
	return misc_register(&device);
}

void polter_device_exit(void)
{
	misc_deregister(&device);
}
