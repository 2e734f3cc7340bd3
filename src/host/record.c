/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The recorder: a text host that grows while a machine is read. */
#include "host/record.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

struct config_note {
	char    *path;
	size_t   size;
	uint8_t  bytes[PCI_CFG_SPACE_EXP_SIZE], known[PCI_CFG_SPACE_EXP_SIZE / 32 + 1];
};

void record_add(struct recorder *rec, const struct text_entry *e)
{
	if (rec->host && text_host_add(rec->host, e) < 0)
		rec->failed = true;
}

/* That something is not there needs no line. ELOOP, EISDIR: it is something else. */
void record_error(struct recorder *rec, const char *path, int result)
{
	static const int silent[] = { ENOENT, ELOOP, EISDIR, EFBIG, ENAMETOOLONG, ENOMEM };

	if (result == 0 || !rec->host)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
		if (result == -silent[i])
			return;
	if (strerrorname_np(-result))
		record_add(rec, &(struct text_entry){ .path = path, .type = TEXT_ERROR, .error = -result });
}

void record_link(struct recorder *rec, const char *path, const char *target, int result)
{
	record_error(rec, path, result);
	if (result == 0)
		record_add(rec, &(struct text_entry){ .path = path, .type = TEXT_LINK, .value = target });
}

struct config_note *config_note_new(struct recorder *rec, const char *path, size_t size)
{
	struct config_note *note = calloc(1, sizeof(*note));

	if (note)
		note->path = strdup(path);
	if (!note || !note->path) {
		rec->failed = true;
		free(note);
		return NULL;
	}
	note->size = size;
	return note;
}

void config_note_read(struct config_note *note, size_t at, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n && at + i + 4 <= note->size; i += 4) {
		memcpy(note->bytes + at + i, bytes + i, 4);
		note->known[(at + i) / 32] |= (uint8_t)(1u << ((at + i) / 4 % 8));
	}
}

void config_note_end(struct recorder *rec, struct config_note *note)
{
	if (!note)
		return;
	record_add(rec, &(struct text_entry){ .path = note->path, .type = TEXT_BYTES, .len = note->size,
					      .bytes = note->bytes, .known = note->known });
	free(note->path);
	free(note);
}
