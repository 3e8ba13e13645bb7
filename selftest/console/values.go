package console

import "github.com/lnetd/lnetd/selftest/report"

// What a console tells are values of package report, for those who show it without
// having a console.
type (
	// State is a node's.
	State = report.State
	// Count is nodes by state.
	Count = report.Count
	// NodeInfo is a node in a list.
	NodeInfo = report.NodeInfo
	// Members are nodes with their count.
	Members = report.Members
	// Result is what came of asking nodes.
	Result = report.Result
	// NodeResult is what came of asking one.
	NodeResult = report.NodeResult
	// SessionRef names a session that a node is in.
	SessionRef = report.SessionRef
	// GroupInfo describes a group.
	GroupInfo = report.GroupInfo
	// GroupAddition is what came of AddGroup.
	GroupAddition = report.GroupAddition
	// Addition is what came of one of its lists.
	Addition = report.Addition
	// GroupChange is what came of changing a group.
	GroupChange = report.GroupChange
	// BatchInfo describes a batch.
	BatchInfo = report.BatchInfo
	// TestInfo describes a test of a batch.
	TestInfo = report.TestInfo
	// Test is a test to be added.
	Test = report.Test
	// TestKind is what a test does.
	TestKind = report.TestKind
	// BRW says how bulk is moved.
	BRW = report.BRW
	// TestAddition is what came of AddTest.
	TestAddition = report.TestAddition
	// QueryResult tells where a batch runs.
	QueryResult = report.QueryResult
	// Sample is the counters of nodes at one time.
	Sample = report.Sample
	// TargetSample is the sample of a group, or of a list of NIDs.
	TargetSample = report.TargetSample
	// NodeSample is the sample of a node.
	NodeSample = report.NodeSample
	// Interval is what has happened between two samples.
	Interval = report.Interval
	// Error is why a command was refused or stopped.
	Error = report.Error
)

// The states of nodes, and the kinds of tests.
const (
	Active  = report.Active
	Busy    = report.Busy
	Down    = report.Down
	Unknown = report.Unknown
	Invalid = report.Invalid

	BulkTest = report.BulkTest
	PingTest = report.PingTest
)

// ErrGroupChanged means that two samples are not of the same nodes.
var ErrGroupChanged = report.ErrGroupChanged
