# SPDX-License-Identifier: GPL-2.0-or-later
"""What Linux does with an IOMMU: the ACS default, and the IOMMU groups that follow from it.

Written after drivers/iommu/iommu.c, drivers/pci/pci.c and drivers/pci/search.c; the functions
name their models. A function ("fn") is anything with bdf, parent, kind, vendor, device, multifunction,
acs_cap (None: no capability), acs_ctl and group. DMA alias quirks are left out, and most device quirks.
What it derives from the 226 functions that hpe-gen9-sriov was taken from is what that kernel had made.
"""

# PCI Express device/port types, PCI Express Capabilities Register bits 7:4
ENDPOINT, LEGACY, ROOT_PORT, UPSTREAM, DOWNSTREAM, PCI_BRIDGE, RC_ENDPOINT = 0, 1, 4, 5, 6, 7, 9

# ACS Capability and Control bits
SV, TB, RR, CR, UF, EC, DT = (1 << n for n in range(7))
ISOLATION = SV | RR | CR | UF                               # REQ_ACS_FLAGS; also the default


def enable_acs(fns):
    """pci_enable_acs() with pci_acs_enable set: the default is ORed onto what firmware left."""
    for fn in fns:
        if fn.acs_cap is not None:
            fn.acs_ctl |= fn.acs_cap & ISOLATION


def acs_enabled(fn):
    """Does fn keep peers apart? pci_acs_enabled(pdev, REQ_ACS_FLAGS), drivers/pci/pci.c.

    Conventional functions and PCIe-to-PCI bridges never do. Root and downstream ports do if
    pci_acs_flags_enabled(). Any other function needs that only if it is one of several in its
    device: a single one has no peer to reach, so it does.
    """
    if quirk_isolates(fn):
        return True
    if fn.kind in (None, PCI_BRIDGE):
        return False
    if fn.kind not in (ROOT_PORT, DOWNSTREAM) and not fn.multifunction:
        return True
    return acs_flags_enabled(fn)


def quirk_isolates(fn):
    """pci_dev_specific_acs_enabled(), drivers/pci/quirks.c, as far as the hosts here have the devices.

    Intel's root complex integrated endpoints (pci_quirk_rciep_acs()), functions of the 82599
    (pci_quirk_mf_endpoint_acs()), root ports of the Wellsburg PCH (pci_quirk_intel_pch_acs()).
    """
    if fn.vendor != 0x8086:
        return False
    return fn.kind == RC_ENDPOINT or fn.device == 0x10FB or 0x8D10 <= fn.device <= 0x8D1F


def acs_flags_enabled(fn):
    """pci_acs_flags_enabled(): all wanted bits are set in ACSCtl, or missing in ACSCap.

    A missing bit counts as hard-wired, hence an ACSCap of 0 isolates; no ACS capability at all
    does not.
    """
    if fn.acs_cap is None:
        return False
    wanted = ISOLATION & (fn.acs_cap | EC)
    return fn.acs_ctl & wanted == wanted


def acs_path_enabled(fn):
    """pci_acs_path_enabled(pdev, NULL, REQ_ACS_FLAGS): fn and every bridge above it."""
    return acs_enabled(fn) and (not fn.parent or acs_path_enabled(fn.parent))


def dma_aliases(fn):
    """pci_for_each_dma_alias(), drivers/pci/search.c: who may sign for fn's DMA, fn first.

    A PCIe-to-PCI bridge puts its own id on what comes from below, and so does a conventional
    bridge; PCIe ports pass the requester on. DMA alias quirks are left out.
    """
    yield fn
    while fn.parent:
        fn = fn.parent
        if fn.kind in (None, PCI_BRIDGE):
            yield fn


def existing_group(fn, fns):
    """The group that fn must join, None if it needs a new one; pci_device_group().

    In the kernel's order: the group of a DMA alias; from the last alias upwards, the group of
    each bridge whose bus is not cut off from its peers all the way to the root; the group of
    another function of the same device when neither isolates (get_pci_function_alias_group()).
    """
    at = fn
    for at in dma_aliases(fn):
        if at.group is not None:
            return at.group
    while at.parent and not acs_path_enabled(at.parent):
        at = at.parent
        if at.group is not None:
            return at.group
    if not at.multifunction or acs_enabled(at):
        return None
    for other in fns:
        if other is not at and other.bdf[:-2] == at.bdf[:-2] and not acs_enabled(other):
            if other.group is not None:
                return other.group
    return None


def make_groups(fns):
    """Give every function its IOMMU group as drivers/iommu/iommu.c would.

    iommu_group_get_for_dev() runs once per function in the order of discovery, which is that of
    the numbers, VFs last; groups count up from 0. Functions that are not in the list would have
    groups too, so a real machine has other numbers.
    """
    count = 0
    for fn in fns:
        fn.group = existing_group(fn, fns)
        if fn.group is None:
            fn.group = count
            count += 1
