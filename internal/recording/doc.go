// Package recording reads recorded TCP conversations between real LNet nodes
// (testdata, see its README) and takes them apart: packets, TCP streams,
// acceptor requests, HELLOs, messages.
//
// It is for tests: the codecs are held against what kernels really sent, fuzz
// targets start from it, and replay tests play one side of a conversation.
// Read and Load give a Recording; Parse takes one direction of a connection
// apart. The package starts no goroutines; what it returns is shared by
// nobody.
package recording
