// Package unixsocket makes sockets in the file system, of which a lock file beside each tells
// a living owner from a file that a dead one left, and takes over those that others have made.
// The control server, those who host clients, and the daemon call it. It starts no goroutine.
package unixsocket
