// Pages of the program that are replaced by pages of an area, at the same address.
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

// private_pages reports whether all memory between two addresses is private, anonymous and writable. Only such pages
// can be replaced without an effect on files and other processes.
static bool private_pages(uintptr_t from, uintptr_t to)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], name[8];
	if (!f)
		return false;
	while (from < to && fgets(line, sizeof line, f)) {
		uintptr_t first, end;
		char rights[5] = "";
		unsigned long inode = 1;
		name[0] = 0;
		int n = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu %7s", &first, &end, rights, &inode, name);
		while (!strchr(line, '\n') && fgets(line, sizeof line, f)) // the rest of a long name
			;
		if (n < 4)
			break;
		if (end <= from)
			continue;
		if (first > from || strcmp(rights, "rw-p") != 0 || inode != 0 || strncmp(name, "[stack", 6) == 0)
			break;
		from = end;
	}
	fclose(f);
	return from >= to;
}

int lni_replace(struct piece *p)
{
	uintptr_t at = (uintptr_t)p->user;
	if (at % PAGE || p->size % PAGE || !private_pages(at, at + p->size))
		return lni_fail(EINVAL, "%zu bytes at %p are not whole pages of private anonymous memory", p->size, (void *)p->user);
	memcpy(p->area->start + p->offset, p->user, p->size);
	if (mmap(p->user, p->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->area->fd, (off_t)p->offset) == MAP_FAILED)
		return lni_fail(errno, "replace %zu bytes at %p: %s", p->size, (void *)p->user, strerror(errno));
	p->kind = REPLACED;
	return 0;
}

int lni_give_back(struct piece *p)
{
	if (p->kind != REPLACED)
		return 0;
	void *fresh = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fresh != MAP_FAILED) {
		memcpy(fresh, p->user, p->size);
		if (mremap(fresh, p->size, p->size, MREMAP_MAYMOVE | MREMAP_FIXED, p->user) != MAP_FAILED)
			return 0;
		munmap(fresh, p->size);
	}
	return lni_fail(ENOMEM, "restore %zu private bytes at %p: %s", p->size, (void *)p->user, strerror(errno));
}
