// Package fake is MPI in memory: a job whose ranks are in one process. It implements package boundary for tests of the
// driver. Where MPI may behave in several ways, a job can be made to behave in the way that is hardest for a driver
// (Options), and tests can kill ranks, stop their progress, and make requests fail.
//
// New creates a job, whose ranks are used by a goroutine each. Calls that MPI does not allow panic, such as two calls of
// one rank at the same time. As in MPI, messages move only while the receiving rank is in a call.
//
// Random delays and faults depend on the seed, the rank, and the order of the rank's calls. Time is that of package
// time, so in a testing/synctest bubble it is simulated. The package starts no goroutine. One lock guards a Job.
package fake
