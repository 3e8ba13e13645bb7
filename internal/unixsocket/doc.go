// Package unixsocket makes sockets in the file system, of which a lock file beside each tells
// a living owner from a file that a dead one left. The control server and those who host
// clients call it. It starts no goroutine.
package unixsocket
