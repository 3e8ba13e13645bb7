package api

// StreamEndHeader is the name of the trailer of a reply that is a stream. Its value says why the stream has ended.
// A stream without it was interrupted.
const StreamEndHeader = "Lnetd-Stream-End"

// Values of StreamEndHeader.
const (
	StreamComplete = "complete" // a limit of the request was reached, or there are no more data
	StreamStopping = "stopping" // lnetd stops
	StreamFailed   = "failed"   // lnetd cannot continue
)
