package soak

import "github.com/lnetd/lnetd/lnet/portals"

// The words of the message interface that this package uses.
type (
	md    = portals.MD
	entry = portals.Entry
	event = portals.Event
)

const (
	opPut        = portals.OpPut
	opGet        = portals.OpGet
	manageRemote = portals.ManageRemote
	maxSizeValid = portals.MaxSize
	unlimited    = portals.Unlimited

	after = portals.After

	eventGet    = portals.EventGet
	eventPut    = portals.EventPut
	eventReply  = portals.EventReply
	eventAck    = portals.EventAck
	eventSend   = portals.EventSend
	eventUnlink = portals.EventUnlink
)
