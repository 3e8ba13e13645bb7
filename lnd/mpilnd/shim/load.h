// Calls of a shim's functions: Go cannot call a pointer to a function.
#ifndef LNETD_MPI_LOAD_H
#define LNETD_MPI_LOAD_H

#include "shim.h"

// load_shim loads a shim. It returns NULL if that fails, and writes the reason to text.
const shim *load_shim(const char *path, char *text, int size);

// open_shim calls open. The signal handlers of load_shim's call are then in place again: libraries install handlers for
// faults (UCX, which MPICH uses, does), with which Go would not recover from them.
int open_shim(const shim *s, int passed, int32_t comm, shim_opened *out);

static inline int call_dup(const shim *s, int32_t *rank, int32_t *size) { return s->dup(rank, size); }
static inline int call_open_port(const shim *s, char *name, int size) { return s->open_port(name, size); }
static inline int call_join(const shim *s, int accept, const char *port, int32_t *comm, int32_t *size) {
	return s->join(accept, port, comm, size);
}
static inline int call_spawn(const shim *s, const char *words, int n, const char *hosts, int processes, int32_t *comm, int32_t *size) {
	return s->spawn(words, n, hosts, processes, comm, size);
}
static inline int call_parent(const shim *s, int32_t *comm, int32_t *size) { return s->parent(comm, size); }
static inline int call_disconnect(const shim *s, int comm) { return s->disconnect(comm); }
static inline int call_send(const shim *s, int comm, uintptr_t b, int n, int to, int tag, uint64_t id, int slot) {
	return s->send(comm, b, n, to, tag, id, slot);
}
static inline int call_receive(const shim *s, int comm, uintptr_t b, int n, int from, int tag, uint64_t id, int slot) {
	return s->receive(comm, b, n, from, tag, id, slot);
}
static inline int call_cancel(const shim *s, uint64_t id) { return s->cancel(id); }
static inline int call_poll(const shim *s, shim_done *out, int max, int64_t wait_ns, int64_t spin_ns) {
	return s->poll(out, max, wait_ns, spin_ns);
}
static inline void call_wake(const shim *s) { s->wake(); }
static inline int call_barrier(const shim *s) { return s->barrier(); }
static inline int call_broadcast(const shim *s, uintptr_t b, int n, int root) { return s->broadcast(b, n, root); }
static inline int call_gather(const shim *s, uintptr_t b, int n, uintptr_t all, int root) { return s->gather(b, n, all, root); }
static inline void call_abort(const shim *s, int status) { s->abort(status); }
static inline int call_close(const shim *s) { return s->close(); }
static inline void call_error(const shim *s, int code, char *text, int size) { s->error(code, text, size); }
static inline void call_version(const shim *s, char *text, int size) { s->version(text, size); }

#endif
