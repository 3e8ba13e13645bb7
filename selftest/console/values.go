package console

import "github.com/lnetd/lnetd/selftest/report"

// The values that a console returns are types of package report, so that programs without a console can
// use them.
type (
	// State is the state of a node.
	State = report.State
	// Count has the number of nodes in each state.
	Count = report.Count
	// NodeInfo describes a node in a list.
	NodeInfo = report.NodeInfo
	// Members is a list of nodes with the number in each state.
	Members = report.Members
	// Result is the result of asking nodes.
	Result = report.Result
	// NodeResult is the result of asking one node.
	NodeResult = report.NodeResult
	// SessionRef identifies the session that a node is in.
	SessionRef = report.SessionRef
	// GroupInfo describes a group.
	GroupInfo = report.GroupInfo
	// GroupAddition is the result of AddGroup.
	GroupAddition = report.GroupAddition
	// Addition is the result for one list of AddGroup.
	Addition = report.Addition
	// GroupChange is the result of changing a group.
	GroupChange = report.GroupChange
	// BatchInfo describes a batch.
	BatchInfo = report.BatchInfo
	// TestInfo describes a test of a batch.
	TestInfo = report.TestInfo
	// Test describes a test to add.
	Test = report.Test
	// TestKind is the kind of a test.
	TestKind = report.TestKind
	// BRW has the parameters of a bulk test.
	BRW = report.BRW
	// TestAddition is the result of AddTest.
	TestAddition = report.TestAddition
	// QueryResult is the result of Query.
	QueryResult = report.QueryResult
	// Sample has the counters of nodes at one time.
	Sample = report.Sample
	// TargetSample is the sample of a group or of a list of NIDs.
	TargetSample = report.TargetSample
	// NodeSample is the sample of a node.
	NodeSample = report.NodeSample
	// Interval is the difference of two samples.
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

// ErrGroupChanged means that two samples have different nodes.
var ErrGroupChanged = report.ErrGroupChanged
