// Package ring provides a doubly linked list whose elements contain their links. Adding an element does not
// allocate, and removing one does not search. LNet selftest keeps its RPCs, request buffers and waiters in
// such lists. The package does no locking.
package ring
