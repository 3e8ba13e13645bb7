// Package unixsocket creates listening Unix sockets in the file system, and takes over such sockets from other
// processes. Beside each socket is a lock file, which its owner locks. So another process can detect whether
// the owner of a socket file still runs. The packages control/server, clients and daemon use this package. It
// starts no goroutine.
package unixsocket
