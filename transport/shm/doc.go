// Package shm is what lnetd and the programs that it hosts transfer machines for share:
// areas of memory for buffers, and for each TM a ring file with submissions one way and
// completions the other, with a bell each way by which who waits for them is woken
// (docs/spec/transport.md 9.3 to 9.6).
//
// It knows layouts, and trusts nobody with them: what the other side can write is copied
// before it is looked at, and what it says of its own progress is checked. What entries
// ask for, credits, quotas and who may do what, is for those above. It starts no goroutine.
package shm
