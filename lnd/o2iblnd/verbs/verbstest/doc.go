// Package verbstest is the conformance suite of package verbs, which each of its
// implementations runs, and a server for processes that the suite has killed.
//
// Where implementations differ, which a driver has to bear, the suite allows both: the status of an
// error that a local key or a long message makes; whether what is posted after an error is flushed or
// forgotten (soft-RoCE flushes requests and forgets receives); more room than was asked for; whether who is
// called hears of a caller that gives up before Accept fails.
//
// Each end of a test has a goroutine at its channel, its completion queue and its device, as a
// driver has them; they end before the test does.
package verbstest
