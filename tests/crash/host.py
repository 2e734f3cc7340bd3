# SPDX-License-Identifier: GPL-2.0-or-later
# A text host (tests/hosts/README.md) that is changed as a machine changes over a boot: another boot id, other numbers of buses and of
# IOMMU groups, cards with serial numbers that are in other slots.
import re

DSN = 0x0003     # Device Serial Number (PCIe 6.0, 7.9.3)
DSN_AT = 0x300   # where none of the hosts that are used here has anything
BUSES = 0x18     # primary, secondary and subordinate bus number of a bridge (PCIe 6.0, 7.5.1.3)


class Host:
    def __init__(self, path):
        """Entries: a line, and the rows of a config space."""
        with open(path) as f:
            lines = f.read().splitlines()
        self.head = [x for x in lines if x.startswith("#")]
        self.entries = []
        for x in lines[len(self.head):]:
            if x.startswith(" "):
                self.entries[-1].append(x)
            else:
                self.entries.append([x])

    def write(self, path):
        key = lambda e: re.split(r"\t| -> | ! ", e[0])[0].rstrip("/").encode()
        with open(path, "w") as f:
            f.write("\n".join(self.head + [x for e in sorted(self.entries, key=key) for x in e]) + "\n")

    def config(self, bdf):
        return next(e for e in self.entries if f"/{bdf}/config\t" in e[0])

    def read(self, bdf):
        e, data = self.config(bdf), bytearray(4096)
        for row in e[1:]:
            at, values = row.split(":")
            data[int(at, 16):int(at, 16) + 16] = bytes(int(x, 16) for x in values.split()).ljust(16, b"\0")
        return data

    def put(self, bdf, data):
        self.config(bdf)[1:] = [f" {i:03x}: " + " ".join(f"{x:02x}" for x in data[i:i + 16]) for i in range(0, 4096, 16) if any(data[i:i + 16])]

    def boot(self, name):
        path = "proc/sys/kernel/random/boot_id\t"
        self.entries = [e for e in self.entries if not e[0].startswith(path)] + [[path + name]]

    def put_text(self, path, change):
        e = next(e for e in self.entries if e[0].startswith(path + "\t"))
        e[0] = path + "\t" + change(e[0].split("\t", 1)[1])

    def serial(self, bdf, number):
        data, at = self.read(bdf), 0x100
        while at != DSN_AT and (more := int.from_bytes(data[at + 2:at + 4], "little") >> 4):
            at = more
        if at != DSN_AT:
            word = int.from_bytes(data[at:at + 4], "little") & 0xfffff | DSN_AT << 20
            data[at:at + 4] = word.to_bytes(4, "little")
        data[DSN_AT:DSN_AT + 12] = (DSN | 1 << 16).to_bytes(4, "little") + number.to_bytes(8, "little")
        self.put(bdf, data)

    def vpd(self, bdf, serial):
        """Its card's serial number is in VPD (PCI Local Bus 3.0, appendix I), and nowhere else."""
        fields = b"SN" + bytes([len(serial)]) + serial.encode()
        data = b"\x82\x04\0Card\x90" + (len(fields) + 4).to_bytes(2, "little") + fields + b"RV\x01"
        data += bytes([-sum(data) & 0xff]) + b"\x78"
        path = self.config(bdf)[0].split("/config\t")[0] + "/vpd\t"
        self.entries = [e for e in self.entries if not e[0].startswith(path)]
        self.entries.append([f"{path}bytes {len(data)}"] + [f" {i:03x}: " + " ".join(f"{x:02x}" for x in data[i:i + 16]) for i in range(0, len(data), 16)])

    def rename(self, pattern, new):
        self.entries = [[re.sub(pattern, new, e[0])] + e[1:] for e in self.entries]

    def bus(self, above, old, new):
        """The one bus below the port `above[0]` has another number; the ports above it in turn lead there, too."""
        self.rename(f"(0000:){old:02x}(:)", rf"\g<1>{new:02x}\2")
        for i, port in enumerate(above):
            data = self.read(port)
            if i == 0:
                data[BUSES + 1] = new
            data[BUSES + 2] = new if i == 0 else max(new, data[BUSES + 2])
            self.put(port, data)

    def take(self, other, bdf):
        """All that there is of a function in another host, which this one lacks."""
        have = {e[0] for e in self.entries}
        self.entries += [e for e in other.entries if bdf in e[0] and e[0] not in have]

    def groups(self, more):
        """As after a kernel that counts IOMMU groups otherwise."""
        self.rename(r"(iommu_groups/)(\d+)", lambda m: m[1] + str(int(m[2]) + more))
