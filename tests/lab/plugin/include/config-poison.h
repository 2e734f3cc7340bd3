/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Empty: QEMU's build poisons target macros here, which a single file for one target does not need. */
