// Package recording reads recorded conversations between real LNet nodes
// (testdata, see its README) and takes them apart: packets, TCP streams,
// acceptor requests, HELLOs, messages; of RoCE v2 what the CM, SENDs and RDMA
// WRITEs carry.
//
// It is for tests: the codecs are held against what kernels really sent, fuzz
// targets start from it, and replay tests play one side of a conversation.
// Read and Load give a Recording, ReadRDMA and LoadRDMA conversations over RoCE;
// Parse takes one direction of a TCP connection apart. The package starts no
// goroutines; what it returns is shared by nobody.
package recording
