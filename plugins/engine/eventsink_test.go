package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// The API server refuses an event with a note of more than 1,024 bytes: names of nodes may make one longer.
func TestEventsAreCut(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	s := newEventSink(recorder, time.Now)
	s.emit(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}, v1.EventTypeNormal, "MakingRoom", strings.Repeat("node-é ", 500))
	event := <-recorder.Events
	note := strings.TrimPrefix(event, "Normal MakingRoom ")
	require.NotEqual(t, event, note)
	require.LessOrEqual(t, len(note), 1024)
}
