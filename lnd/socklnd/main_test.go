package socklnd

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a process that a test started for it, an
// attack on one of them.
func TestMain(m *testing.M) {
	if attack := os.Getenv(attackVariable); attack != "" {
		os.Exit(attackMain(attack))
	}
	goleak.VerifyTestMain(m)
}
