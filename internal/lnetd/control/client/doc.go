// Package client calls lnetd through its control socket. A Client has one method for each request
// of package endpoint. lnetdctl and tests use it; it does not import the LNet engine.
//
// The only goroutine it starts is the read-ahead of Client.EachPeer.
package client
