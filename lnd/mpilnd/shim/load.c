//go:build mpi && cgo

#define _GNU_SOURCE
#include "load.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

enum { FAULTS = 6 };
static const int faults[FAULTS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
static struct sigaction handlers[FAULTS];

int open_shim(const shim *s, int passed, int32_t comm, shim_opened *out) {
	int rc = s->open(passed, comm, out);
	for (int k = 0; k < FAULTS; k++) sigaction(faults[k], &handlers[k], NULL);
	return rc;
}

const shim *load_shim(const char *path, char *text, int size) {
	for (int k = 0; k < FAULTS; k++) sigaction(faults[k], NULL, &handlers[k]);
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	shim_table_fn *table = NULL;
	if (lib) *(void **)&table = dlsym(lib, "shim_table");
	if (!table) {
		snprintf(text, size, "%s", dlerror());
		return NULL;
	}
	const shim *s = table();
	if (s->abi == SHIM_ABI) return s;
	snprintf(text, size, "%s: the shim has version %d of its interface, this program %d", path, s->abi, SHIM_ABI);
	return NULL;
}
