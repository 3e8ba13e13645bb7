// Package unixsocket creates listening sockets in the file system, and adopts sockets that other
// processes have created. A lock file beside each socket distinguishes a running owner from a file
// left by a dead one. The control server, the servers that host clients, and the daemon use it. It
// starts no goroutine.
package unixsocket
