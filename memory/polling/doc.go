// Package polling has the rules by which goroutines poll before they sleep. They are the same for rings in shared
// memory, sockets and completion queues of devices:
//
//   - A goroutine polls for a time that depends on what its polling has found lately (Poller).
//   - Fewer goroutines than processors (GOMAXPROCS) poll at a time (Acquire), because others need a processor to run.
//   - After a poll that has found nothing, the goroutine yields the processor (Yield), because the other side may need
//     it. If it gets the processor back late, the processors are busy, and the whole process does not poll for a while
//     (Resting).
//
// The package starts no goroutine. All of it is safe for concurrent use, except for a Poller.
package polling
