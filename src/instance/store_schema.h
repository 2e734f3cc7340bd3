/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/store_schema — the tables, version after version. For instance/store only. */

#define STORE_VERSION 15

extern const char *const store_schemas[]; /* [n] makes version n + 1 of version n */
