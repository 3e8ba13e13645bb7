package api

// Stats is the reply to GET /v1/stats.
type Stats struct {
	Counters
	// Drops counts dropped messages by reason. Refusals counts rejected connections of peers by reason.
	Drops    []Reason `json:"drops"`
	Refusals []Reason `json:"refusals"`
	// Log counts log lines that were not written at once. A reset keeps it.
	Log LogCounts `json:"log"`
}

// LogCounts counts events that had no log line of their own when they happened.
type LogCounts struct {
	Summarized uint64 `json:"summarized"`  // reported in a later line
	OverBudget uint64 `json:"over_budget"` // those of them that were summarized because a budget was used up
	Omitted    uint64 `json:"omitted"`     // debug lines that were left out
}

// Reason is the number of events that had the same reason.
type Reason struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// Counters are the node's counters in display order (lnetctl 5.6).
type Counters struct {
	Committed         uint64 `json:"msgs_alloc"`
	CommittedMax      uint64 `json:"msgs_max"`
	Trackers          uint64 `json:"rst_alloc"`
	Errors            uint64 `json:"errors"`
	Sent              uint64 `json:"send_count"`
	Resent            uint64 `json:"resend_count"`
	ResponseTimeouts  uint64 `json:"response_timeout_count"`
	LocalInterrupts   uint64 `json:"local_interrupt_count"`
	LocalDropped      uint64 `json:"local_dropped_count"`
	LocalAborted      uint64 `json:"local_aborted_count"`
	LocalNoRoute      uint64 `json:"local_no_route_count"`
	LocalTimeouts     uint64 `json:"local_timeout_count"`
	LocalErrors       uint64 `json:"local_error_count"`
	RemoteDropped     uint64 `json:"remote_dropped_count"`
	RemoteErrors      uint64 `json:"remote_error_count"`
	RemoteTimeouts    uint64 `json:"remote_timeout_count"`
	NetworkTimeouts   uint64 `json:"network_timeout_count"`
	FailedResends     uint64 `json:"failed_resends"`
	SuccessfulResends uint64 `json:"successful_resends"`
	Received          uint64 `json:"recv_count"`
	Routed            uint64 `json:"route_count"`
	Dropped           uint64 `json:"drop_count"`
	SentBytes         uint64 `json:"send_length"`
	ReceivedBytes     uint64 `json:"recv_length"`
	RoutedBytes       uint64 `json:"route_length"`
	DroppedBytes      uint64 `json:"drop_length"`
}
