package socklnd

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests. In a process that a test started as an attacker, it runs the attack.
func TestMain(m *testing.M) {
	if attack := os.Getenv(attackVariable); attack != "" {
		os.Exit(attackMain(attack))
	}
	goleak.VerifyTestMain(m)
}
