// Package roundtrip holds tests of what lnetdctl exports and imports, with an lnetd that
// runs in a network namespace of its own. They need root and iproute2.
package roundtrip
