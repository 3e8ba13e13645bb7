package api

// CaptureFilter holds the parameters of GET /v1/capture as text. An empty parameter is not sent: it selects everything,
// or is the default.
type CaptureFilter struct {
	// NIDs, Nets, Portals and Types are lists with commas.
	NIDs, Nets, Portals, Types string
	// Payload is the number of bytes of payload to record of each message, Count the number of messages after which
	// the capture ends, and Duration the time after which it ends, such as 10s.
	Payload, Count, Duration string
}
