/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/record — what host/root gave to its readers, remembered for a dump (room-private). */

#include "host/text.h"

struct recorder {
	struct text_host *host;   /* owned; NULL: nothing is recorded, and these functions do nothing */
	bool              failed; /* out of memory */
};

void record_add(struct recorder *rec, const struct text_entry *e);
/* The result of reading a file, a directory or a symbolic link: only what is worth a line. */
void record_error(struct recorder *rec, const char *path, int result);
void record_link(struct recorder *rec, const char *path, const char *target, int result);

/* The dwords that were read of one config space, of which `size` bytes can be read. */
struct config_note;
struct config_note *config_note_new(struct recorder *rec, const char *path, size_t size); /* NULL: no memory */
void                config_note_read(struct config_note *note, size_t at, const uint8_t *bytes, size_t n);
void                config_note_end(struct recorder *rec, struct config_note *note); /* records and frees it */
