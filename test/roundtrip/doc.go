// Package roundtrip tests that lnetdctl can import what it has exported. lnetd runs in a separate network
// namespace. The tests need root and iproute2.
package roundtrip
