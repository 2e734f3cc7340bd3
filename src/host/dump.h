/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/dump — a machine as a text host: an inventory is read with the recorder on, so a dump holds what velad
 * reads, and nothing else: of config space the standard header, the capability lists and the registers that
 * velad knows; none of VFs; no VPD. Reading a dump gives the same facts, dumping it the same text. */

#include "host/anonymize.h"

struct error;
struct host_kinds;
struct host_root;

/* The caller frees. hidden NULL: everything as it is; else with what names this machine replaced, and counted. */
int host_dump(char **ret, struct host_root *root, const struct host_kinds *kinds, struct anonymize_counts *hidden,
	      struct error *err);
