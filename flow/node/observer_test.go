package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The name of an interface is known until its last records have come, and then forgotten: pods come and go.
func TestNamesOfInterfaces(t *testing.T) {
	o := &Observer{idle: time.Second, watched: map[int]*watched{7: {}}, names: map[int]string{7: "pod7", 8: "pod8"}, gone: map[int]time.Duration{}}
	last := o.idle + nameless
	o.forget(time.Minute)
	o.forget(time.Minute + last)
	require.Equal(t, "pod8", o.record(&observeKey{Interface: 8}, &observeState{}, 0).Interface)
	o.forget(time.Minute + last + 1)
	require.Equal(t, map[int]string{7: "pod7"}, o.names)
	require.Empty(t, o.gone)
}
