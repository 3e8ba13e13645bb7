// Package recording parses pcap files with recorded conversations between LNet nodes (testdata, see the
// README there). For TCP it returns streams, acceptor requests, HELLOs and messages. For RoCE v2 it
// returns the content of CM messages, SENDs and RDMA WRITEs.
//
// It is for tests: codecs are tested with the bytes that kernels sent, fuzz targets use the recordings
// as seeds, and replay tests send one side of a conversation. Read and Load return a Recording. ReadRDMA
// and LoadRDMA return conversations over RoCE. Parse parses one direction of a TCP connection. The
// package starts no goroutines. Callers may change the values that it returns.
package recording
