package console

import "github.com/lnetd/lnetd/selftest/report"

// The values that a console returns are types of package report, so that programs without a console can
// use them.
type (
	// State is the state of a node.
	State = report.State
	// Count contains the number of nodes in each state.
	Count = report.Count
	// NodeInfo describes one node in a list of nodes.
	NodeInfo = report.NodeInfo
	// Members is a list of nodes, together with the number of nodes in each state.
	Members = report.Members
	// Result is the result of sending a request to each of a set of nodes.
	Result = report.Result
	// NodeResult is the result of sending a request to one node.
	NodeResult = report.NodeResult
	// SessionRef identifies the session that a node is in.
	SessionRef = report.SessionRef
	// GroupInfo describes a group.
	GroupInfo = report.GroupInfo
	// GroupAddition is the result of AddGroup.
	GroupAddition = report.GroupAddition
	// Addition is the result of AddGroup for one list of NIDs.
	Addition = report.Addition
	// GroupChange is the result of a command that changes a group.
	GroupChange = report.GroupChange
	// BatchInfo describes a batch.
	BatchInfo = report.BatchInfo
	// TestInfo describes a test of a batch.
	TestInfo = report.TestInfo
	// Test describes a test that is to be added to a batch.
	Test = report.Test
	// TestKind is the kind of a test.
	TestKind = report.TestKind
	// BRW contains the parameters of a bulk test.
	BRW = report.BRW
	// TestAddition is the result of AddTest.
	TestAddition = report.TestAddition
	// QueryResult is the result of Query.
	QueryResult = report.QueryResult
	// Sample contains the counters of nodes at one time.
	Sample = report.Sample
	// TargetSample contains the counters of the nodes of one target: a group or a list of NIDs.
	TargetSample = report.TargetSample
	// NodeSample contains the counters of one node.
	NodeSample = report.NodeSample
	// Interval is the activity of the nodes of one target between two samples.
	Interval = report.Interval
	// Error describes why a command was refused or stopped.
	Error = report.Error
)

// The states of nodes and the kinds of tests.
const (
	Active  = report.Active
	Busy    = report.Busy
	Down    = report.Down
	Unknown = report.Unknown
	Invalid = report.Invalid

	BulkTest = report.BulkTest
	PingTest = report.PingTest
)

// ErrGroupChanged means that two samples cannot be compared, because they have different nodes.
var ErrGroupChanged = report.ErrGroupChanged
