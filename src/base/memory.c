/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The dynamic linker knows what is mapped, and needs no file to say so. Only segments that nobody writes: those that it has relocated are
 * this process's own, and would be lost. */
#include "base/memory.h"

#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* Code that was relocated is no file's any more. None is built so for this architecture; one could be. */
static bool has_relocated_code(const struct dl_phdr_info *o)
{
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Dyn) *d = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);

		if (o->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		for (; d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_TEXTREL || (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_TEXTREL))
				return true;
	}
	return false;
}

static int give_back(struct dl_phdr_info *o, size_t size, void *self)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size, (void)self;
	if (has_relocated_code(o))
		return 0;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		uintptr_t from = (o->dlpi_addr + p->p_vaddr) & ~(page - 1), to = o->dlpi_addr + p->p_vaddr + p->p_filesz;

		if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) && to > from)
			(void)madvise((void *)from, to - from, MADV_DONTNEED); /* it may fail: then they stay */
	}
	return 0;
}

void memory_give_back(void)
{
	(void)malloc_trim(0);
	(void)dl_iterate_phdr(give_back, NULL);
}
