// Package client asks lnetd through its control socket: a Client has a method for
// each request that package api describes. lnetdctl calls it, and tests; it links
// nothing of the engine.
//
// Its one goroutine is that by which Client.EachPeer reads ahead.
package client
