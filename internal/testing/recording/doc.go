// Package recording parses recorded conversations between real LNet nodes (testdata, see its README). For
// TCP it returns streams, acceptor requests, HELLOs and messages. For RoCE v2 it returns the contents of
// CM messages, SENDs and RDMA WRITEs.
//
// It is for tests: the codecs are compared with what kernels sent, fuzz targets use the recordings as
// seeds, and replay tests play one side of a conversation. Read and Load return a Recording. ReadRDMA and
// LoadRDMA return conversations over RoCE. Parse parses one direction of a TCP connection. The package
// starts no goroutines, and the values that it returns belong to the caller.
package recording
