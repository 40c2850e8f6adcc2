// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Which interrupts belong to network devices: those of the PCI device that an interface is, or sits on (a virtio device's are its PCI
 * parent's). Interfaces come and go; they are scanned again when a process registers, so that an idle module does no work.
 */
#include <linux/bitmap.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>

#include "polter.h"

#define IRQS 16384
#define REFRESH_EVERY (10 * HZ)

static DECLARE_BITMAP(net_irqs, IRQS); /* read by probes, word by word */

bool polter_is_net_irq(unsigned int irq)
{
	return irq < IRQS && test_bit(irq, net_irqs);
}

#if IS_ENABLED(CONFIG_PCI) && IS_ENABLED(CONFIG_NET)
static void add(unsigned long *lines, int irq)
{
	if (irq > 0 && irq < IRQS)
		__set_bit(irq, lines);
}

static void add_interface(unsigned long *lines, struct net_device *interface)
{
	struct device *device = interface->dev.parent;
	struct pci_dev *pci;
	unsigned int i;
	int irq;

	while (device && !dev_is_pci(device))
		device = device->parent;
	if (!device)
		return;
	pci = to_pci_dev(device);
	if (!pci->msi_enabled && !pci->msix_enabled) {
		add(lines, pci->irq);
		return;
	}
	for (i = 0; i < 2048; i++) { /* the most that MSI-X has */
		irq = pci_irq_vector(pci, i);
		if (irq < 0)
			break;
		add(lines, irq);
	}
}

void polter_net_irqs_refresh(void)
{
	static DECLARE_BITMAP(lines, IRQS);
	static unsigned long refreshed;
	static bool known;
	struct net_device *interface;
	struct net *net;
	unsigned int i;

	/* Others may hold this lock for long, for example any user who creates a network namespace. Only the first scan waits for it; later
	 * ones keep the last result. */
	if (!READ_ONCE(known))
		rtnl_lock();
	else if (time_before(jiffies, READ_ONCE(refreshed) + REFRESH_EVERY) || !rtnl_trylock())
		return;
	bitmap_zero(lines, IRQS);
	down_read(&net_rwsem);
	for_each_net(net)
		for_each_netdev(net, interface)
			add_interface(lines, interface);
	up_read(&net_rwsem);
	for (i = 0; i < BITS_TO_LONGS(IRQS); i++)
		WRITE_ONCE(net_irqs[i], lines[i]);
	WRITE_ONCE(refreshed, jiffies);
	WRITE_ONCE(known, true);
	rtnl_unlock();
}
#else
void polter_net_irqs_refresh(void)
{
}
#endif
