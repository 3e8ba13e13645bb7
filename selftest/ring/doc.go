// Package ring is a list of elements that hold their own links: nothing is
// allocated to add one, and one is taken out without being looked for. LNet
// selftest's calls, request buffers and waiters are kept in such. It has no locks.
package ring
