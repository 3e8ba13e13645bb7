//go:build ignore

// Compiled by the script build beside it, with mpicc.

#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	// Calls of MPI_Testsome before a sleep. Libraries look at some networks only in every eighth. Only the last one
	// tests all requests, since that may take 2 us for 256 of them.
	TESTS = 16,
	// A sleep takes a 32nd of the time since a request was started or completed, within these bounds.
	SHORTEST_NS = 100000,
	LONGEST_NS = 2000000,
	FIRST_ROOM = 256, // requests
	COMMS = 256,      // inter-communicators that a process can open, and one more
};

static MPI_Comm parent, comms[COMMS];
static int opened_comms; // those with a lower number were opened
static int opened, ours;
static atomic_int woken, sleeping;
static int bell = -1; // an eventfd, never closed, since wake may come at any time
static int64_t active; // when a request was started or completed

// Requests, in the order of the calls. The arrays have room elements.
static MPI_Request *requests;
static struct entry { uint64_t id; int32_t slot, receive; } *entries;
static int *indices;
static MPI_Status *statuses;
static int count, room;

// Completions that poll has to return, from the first on.
static shim_done *ready;
static int first, last;

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// initialize initializes the library. Processes of Open MPI that share processors would call sched_yield in each
// MPI_Testsome that finds nothing, and may lose a whole time slice each time (Linux 6.18). poll sleeps instead.
static int initialize(int *level) {
#ifdef OMPI_MAJOR_VERSION
	if (setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0)) return MPI_ERR_NO_MEM;
#endif
	return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level);
}

static int shim_open(int passed, int32_t handle, shim_opened *out) {
	int rc, done, level, finalized;
	if (opened) return -MPI_ERR_OTHER;
	if ((rc = MPI_Initialized(&done)) || (rc = MPI_Finalized(&finalized))) return -rc;
	if (finalized || (passed && !done)) return 1;
	if (bell < 0 && (bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) return -MPI_ERR_NO_MEM;
	if ((rc = done ? MPI_Query_thread(&level) : initialize(&level))) return -rc;
	ours = !done;
	opened = 1;
	for (int k = 0; k < COMMS; k++) comms[k] = MPI_COMM_NULL;
	parent = passed ? MPI_Comm_f2c((MPI_Fint)handle) : MPI_COMM_WORLD;
	out->initialized = ours;
	out->level = level >= MPI_THREAD_MULTIPLE ? 2 : level >= MPI_THREAD_SERIALIZED ? 1 : 0;
	int size, *tag, found;
	// MPICH reports errors of requests to the handler of MPI_COMM_WORLD. If the program has initialized MPI, that is
	// not changed, and such an error ends the program, unless its handler returns.
	if (ours && (rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN))) return -rc;
	if ((rc = MPI_Comm_size(MPI_COMM_WORLD, &size))) return -rc;
	if ((rc = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &found))) return -rc;
	out->world = size;
	out->max_tag = found ? *tag : 32767;
	out->max_host = MPI_MAX_INFO_VAL - 1;
	return 0;
}

static int shim_dup(int32_t *rank, int32_t *size) {
	int rc, r, s;
	if ((rc = MPI_Comm_dup(parent, &comms[0]))) return -rc;
	if ((rc = MPI_Comm_set_errhandler(comms[0], MPI_ERRORS_RETURN))) return -rc;
	if ((rc = MPI_Comm_rank(comms[0], &r)) || (rc = MPI_Comm_size(comms[0], &s))) return -rc;
	opened_comms = 1;
	*rank = r;
	*size = s;
	return 0;
}

static int class_of(int code) {
	int class;
	return MPI_Error_class(code, &class) ? MPI_ERR_UNKNOWN : class;
}

// unsupported reports whether the library returned an error because it has no connections between jobs. Over UCX, MPICH
// 4.0.2 says so only in the text. The functions of the shim return the code of such an error without negating it.
static int unsupported(int code) {
	char s[MPI_MAX_ERROR_STRING + 1] = "";
	int n;
	if (!code) return 0;
	if (class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION) return 1;
	return !MPI_Error_string(code, s, &n) && strstr(s, "not supported") != NULL;
}

static int shim_open_port(char *name, int size) {
	char port[MPI_MAX_PORT_NAME] = "";
	int rc = MPI_Open_port(MPI_INFO_NULL, port);
	if (rc) return unsupported(rc) ? rc : -rc;
	return snprintf(name, (size_t)size, "%s", port) < size ? 0 : -MPI_ERR_OTHER;
}

// connected describes the inter-communicator that a call with the result rc has written behind the last one.
static int connected(int rc, int32_t *number, int32_t *size) {
	int s;
	MPI_Comm c = comms[opened_comms];
	if (rc || (rc = MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN)) || (rc = MPI_Comm_remote_size(c, &s))) return -rc;
	*number = opened_comms++;
	*size = s;
	return 0;
}

static int shim_join(int accept, const char *port, int32_t *number, int32_t *size) {
	char name[MPI_MAX_PORT_NAME];
	int rc;
	MPI_Comm *c = &comms[opened_comms];
	if (opened_comms == COMMS || snprintf(name, sizeof name, "%s", port) >= (int)sizeof name) return -MPI_ERR_OTHER;
	rc = accept ? MPI_Comm_accept(name, MPI_INFO_NULL, 0, comms[0], c) : MPI_Comm_connect(name, MPI_INFO_NULL, 0, comms[0], c);
	// MPICH looks at the name of the port first. MPI_Open_port reports errors to the handler of MPI_COMM_WORLD.
	if (rc && ours && !unsupported(rc)) {
		int other = MPI_Open_port(MPI_INFO_NULL, name);
		if (unsupported(other)) return other;
	}
	return unsupported(rc) ? rc : connected(rc, number, size);
}

// spawn_each spawns a program on each of the hosts. There is one command for each host: if one command named them all,
// the library would fill the slots of the first host before it uses the next one.
static int spawn_each(char *program, char **argv, const char *hosts, int n) {
	char **programs = calloc((size_t)n, sizeof *programs), ***argvs = calloc((size_t)n, sizeof *argvs);
	int made = 0, *ones = calloc((size_t)n, sizeof *ones);
	MPI_Info *infos = calloc((size_t)n, sizeof *infos);
	int rc = programs && argvs && ones && infos ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	while (!rc && made < n) {
		programs[made] = program;
		argvs[made] = argv;
		ones[made] = 1;
		if ((rc = MPI_Info_create(&infos[made]))) break;
		rc = MPI_Info_set(infos[made++], "host", hosts);
		hosts += strlen(hosts) + 1;
	}
	if (!rc) rc = MPI_Comm_spawn_multiple(n, programs, argvs, ones, infos, 0, comms[0], &comms[opened_comms], MPI_ERRCODES_IGNORE);
	while (made > 0) (void)MPI_Info_free(&infos[--made]);
	free(programs);
	free(argvs);
	free(ones);
	free(infos);
	return rc;
}

static int shim_spawn(const char *words, int n, const char *hosts, int processes, int32_t *number, int32_t *size) {
	if (opened_comms == COMMS || n < 1 || processes < 1) return -MPI_ERR_OTHER;
	char **argv = calloc((size_t)n, sizeof *argv); // the arguments, and NULL
	if (!argv) return -MPI_ERR_NO_MEM;
	const char *word = words;
	for (int k = 0; k < n - 1; k++) argv[k] = (char *)(word += strlen(word) + 1);
	int rc = spawn_each((char *)words, argv, hosts, processes);
	free(argv);
#ifdef MPICH_VERSION
	// Over UCX, MPICH 4.0.2 says no more than that there was an error. It has a class for processes that do not start.
	if (rc && class_of(rc) == MPI_ERR_OTHER) return rc;
#endif
	return unsupported(rc) ? rc : connected(rc, number, size);
}

static int shim_parent(int32_t *number, int32_t *size) {
	if (opened_comms == COMMS) return -MPI_ERR_OTHER;
	int rc = MPI_Comm_get_parent(&comms[opened_comms]);
	return !rc && comms[opened_comms] == MPI_COMM_NULL ? 1 : connected(rc, number, size);
}

static int shim_disconnect(int comm) { return -MPI_Comm_disconnect(&comms[comm]); }

static int resize(void **p, size_t n, size_t size) {
	void *q = realloc(*p, n * size);
	if (q) *p = q;
	return q != NULL;
}

// add makes room for a request, and describes it. The caller increments count.
static int add(uint64_t id, int slot, int receive) {
	if (count == room) {
		size_t n = room ? 2 * (size_t)room : FIRST_ROOM;
		if (n > 1 << 24 || !resize((void **)&requests, n, sizeof *requests) || !resize((void **)&entries, n, sizeof *entries) ||
			!resize((void **)&indices, n, sizeof *indices) || !resize((void **)&statuses, n, sizeof *statuses) ||
			!resize((void **)&ready, n, sizeof *ready))
			return MPI_ERR_NO_MEM;
		room = (int)n;
	}
	entries[count] = (struct entry){id, slot, receive};
	active = now();
	return MPI_SUCCESS;
}

static int shim_send(int comm, uintptr_t b, int n, int to, int tag, uint64_t id, int slot) {
	int rc = add(id, slot, 0);
	if (!rc) rc = MPI_Isend((const void *)b, n, MPI_BYTE, to, tag, comms[comm], &requests[count]);
	if (!rc) count++;
	return -rc;
}

static int shim_receive(int comm, uintptr_t b, int n, int from, int tag, uint64_t id, int slot) {
	int rc = add(id, slot, 1);
	if (!rc) rc = MPI_Irecv((void *)b, n, MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from, tag, comms[comm], &requests[count]);
	if (!rc) count++;
	return -rc;
}

static int shim_cancel(uint64_t id) {
	for (int k = 0; k < count; k++)
		if (entries[k].id == id && entries[k].receive) return -MPI_Cancel(&requests[k]);
	for (int k = first; k < last; k++)
		if (ready[k].id == id && ready[k].receive) return 0;
	return 1;
}

// complete appends the completion of a request to ready.
static int complete(struct entry *e, MPI_Status *s, int error) {
	shim_done d = {.id = e->id, .slot = e->slot, .receive = e->receive, .error = error};
	int rc, n, cancelled;
	if (error) {
		d.truncated = class_of(error) == MPI_ERR_TRUNCATE;
	} else if (e->receive) {
		if ((rc = MPI_Test_cancelled(s, &cancelled))) return rc;
		d.cancelled = cancelled;
		if (!cancelled) {
			if ((rc = MPI_Get_count(s, MPI_BYTE, &n))) return rc;
			d.from = s->MPI_SOURCE;
			d.tag = s->MPI_TAG;
			d.length = n;
		}
	}
	ready[last++] = d;
	e->slot = -1;
	return MPI_SUCCESS;
}

// test tests the first requests, and moves those that are complete to ready, which must be empty.
static int test(int number) {
	int n, rc = MPI_SUCCESS, kept = 0;
	first = last = 0;
	int result = MPI_Testsome(number, requests, &n, indices, statuses);
	if (result && class_of(result) != MPI_ERR_IN_STATUS) return result;
	if (n == MPI_UNDEFINED || n == 0) return MPI_SUCCESS;
	for (int k = 0; k < n && !rc; k++) {
		int error = result ? statuses[k].MPI_ERROR : MPI_SUCCESS;
		if (error != MPI_ERR_PENDING) rc = complete(&entries[indices[k]], &statuses[k], error);
	}
	for (int k = 0; k < count; k++) {
		if (entries[k].slot < 0) continue;
		entries[kept] = entries[k];
		requests[kept++] = requests[k];
	}
	count = kept;
	active = now();
	return rc;
}

// rest sleeps for at most a time, or until wake is called.
static void rest(int64_t idle_ns, int64_t most_ns) {
	struct pollfd p = {.fd = bell, .events = POLLIN};
	int64_t ns = idle_ns / 32 < SHORTEST_NS ? SHORTEST_NS : idle_ns / 32 > LONGEST_NS ? LONGEST_NS : idle_ns / 32;
	struct timespec t = {.tv_nsec = ns < most_ns ? ns : most_ns};
	atomic_store(&sleeping, 1);
	if (!atomic_load(&woken)) (void)ppoll(&p, 1, &t, NULL);
	atomic_store(&sleeping, 0);
	uint64_t n;
	if (p.revents) (void)!read(bell, &n, sizeof n);
}

// probe tests all requests, with progress of all networks before.
static int probe(void) {
	int rc = MPI_SUCCESS;
	for (int k = 1; k < TESTS && !rc && first == last; k++) rc = test(count > 0);
	return rc || first < last ? rc : test(count);
}

static int shim_poll(shim_done *out, int max, int64_t wait_ns, int64_t spin_ns) {
	int64_t start = now();
	int rc = first < last ? MPI_SUCCESS : test(count);
	while (!rc && first == last) {
		if (atomic_exchange(&woken, 0) || now() - start >= wait_ns) return 0;
		if ((rc = probe()) || first < last) break;
		int64_t t = now(), left = wait_ns - (t - start);
		if (t - active >= spin_ns && left > 0) rest(t - active, left);
	}
	if (rc) return -rc;
	int n = last - first < max ? last - first : max;
	memcpy(out, &ready[first], (size_t)n * sizeof *out);
	first += n;
	return n;
}

static void shim_wake(void) {
	uint64_t one = 1;
	atomic_store(&woken, 1);
	if (atomic_load(&sleeping)) (void)!write(bell, &one, sizeof one);
}

static int shim_barrier(void) { return -MPI_Barrier(comms[0]); }

static int shim_broadcast(uintptr_t b, int n, int root) { return -MPI_Bcast((void *)b, n, MPI_BYTE, root, comms[0]); }

static int shim_gather(uintptr_t b, int n, uintptr_t all, int root) {
	return -MPI_Gather((const void *)b, n, MPI_BYTE, (void *)all, n, MPI_BYTE, root, comms[0]);
}

static void shim_abort(int status) {
	(void)MPI_Abort(comms[0] == MPI_COMM_NULL ? parent : comms[0], status);
	_exit(status);
}

static int shim_close(void) {
	int rc;
	// Over TCP, MPICH 4.0.2 may wait forever in MPI_Finalize. It does so less often if all ranks call it at once.
	if (ours && comms[0] != MPI_COMM_NULL && (rc = MPI_Barrier(comms[0]))) return -rc;
	if (comms[0] != MPI_COMM_NULL && (rc = MPI_Comm_free(&comms[0]))) return -rc;
	return ours ? -MPI_Finalize() : 0;
}

static void shim_error(int code, char *text, int size) {
	char s[MPI_MAX_ERROR_STRING + 1] = "";
	int n;
	if (MPI_Error_string(code, s, &n)) (void)snprintf(s, sizeof s, "error %d", code);
	(void)snprintf(text, (size_t)size, "%s", s);
}

static void shim_version(char *text, int size) {
	char s[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
	int n;
	if (MPI_Get_library_version(s, &n)) s[0] = 0;
	(void)snprintf(text, (size_t)size, "%s", s);
}

__attribute__((visibility("default"))) const shim *shim_table(void);

const shim *shim_table(void) {
	static const shim table = {
		.abi = SHIM_ABI,
#if defined(OMPI_MAJOR_VERSION)
		.kind = "openmpi",
#elif defined(MPICH_VERSION)
		.kind = "mpich",
#else
		.kind = "other",
#endif
		.open = shim_open, .dup = shim_dup, .open_port = shim_open_port, .join = shim_join,
		.spawn = shim_spawn, .parent = shim_parent,
		.disconnect = shim_disconnect, .send = shim_send, .receive = shim_receive, .cancel = shim_cancel,
		.poll = shim_poll, .wake = shim_wake, .barrier = shim_barrier, .broadcast = shim_broadcast, .gather = shim_gather,
		.abort = shim_abort, .close = shim_close, .error = shim_error, .version = shim_version,
	};
	return &table;
}
