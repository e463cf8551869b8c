package mpa_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// The present size is what most ready pods have; of equally many, the newest's.
func TestRequests(t *testing.T) {
	const large, small, other = 1000, 300, 700
	tests := []struct {
		name  string
		cpu   []int64 // by age, the oldest first
		ready int     // so many of the oldest
		want  int64   // 0 = unknown
	}{
		{"all alike", []int64{large, large}, 2, large},
		{"the newest is capped", []int64{large, large, small}, 3, large},
		{"the oldest is left over", []int64{large, small, small}, 3, small},
		{"a tie", []int64{large, small, large, small}, 4, small},
		{"a tie of the older", []int64{small, large, small, large, other}, 5, large},
		{"those that are not ready do not count", []int64{large, small, small}, 1, large},
		{"none is ready", []int64{large, small, small}, 0, small},
		{"no pods", nil, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := mpatest.Observation(mpatest.Begin, len(tt.cpu), mpatest.Size, mpatest.Use)
			for i, cpu := range tt.cpu {
				p := &o.Pods[i]
				p.Started = p.Started.Add(time.Duration(i) * time.Minute)
				p.Ready = i < tt.ready
				p.Containers[0].Request.CPU = cpu
			}
			// Pods that go or have ended say nothing.
			for _, p := range mpatest.Observation(mpatest.Begin, 9, mpa.Resources{CPU: 1}, mpatest.Use).Pods {
				p.Deleting = true
				o.Pods = append(o.Pods, p)
			}
			target := mpatest.Web()
			got := o.Requests(&target)
			if tt.want == 0 {
				require.Nil(t, got)
				return
			}
			require.Equal(t, []mpa.Resources{{CPU: tt.want, Memory: mpatest.Size.Memory}}, got)
			target.Containers = append(target.Containers, mpa.ContainerSpec{Name: "sidecar"})
			require.Nil(t, o.Requests(&target), "a container that no pod has")
		})
	}
}
