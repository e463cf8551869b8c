package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// rounds is how often each fault is tried: SIGMA_ROUNDS, or once.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SIGMA_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	require.Positive(t, n)
	return n
}

// walk leads a candidate from the record until it is in force. hit is called once in each phase.
func (b *bench) walk(hit func(pilot.Phase)) {
	b.t.Helper()
	b.record()
	require.NoError(b.t, b.step())
	hit(pilot.Recording)
	for _, phase := range []pilot.Phase{pilot.Training, pilot.Judging, pilot.AwaitingApproval} {
		b.until(phase)
		hit(phase)
	}
	o := b.pilot()
	digest := o.Status.Candidate
	o.Annotations = map[string]string{v1alpha1.ApprovedAnnotation: digest}
	require.NoError(b.t, b.c.Update(b.t.Context(), o))
	b.until(pilot.Shadowing)
	b.takeUp("general-candidate")
	others := func() { b.place("node-00", ledger.CauseNeutral, "") }
	own := func() { others(); b.place("node-00", ledger.CausePolicy, digest) }
	hit(pilot.Shadowing)
	lead := func(to pilot.Phase, place func(), taken string) {
		o := b.minutes(60, to, place)
		require.Equal(b.t, string(to), o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
		require.Equal(b.t, digest, o.Status.Candidate, "%v", o.Status.Reasons)
		require.NoError(b.t, b.step())
		b.takeUp(taken)
		hit(to)
	}
	lead(pilot.Canarying, others, "general-candidate")
	lead(pilot.GoingLive, own, "general")
	o = b.minutes(60, pilot.Watching, own)
	require.Equal(b.t, "Watching", o.Status.Phase, "%v %v", o.Status.Reasons, o.Status.Conditions)
	hit(pilot.Watching)
	b.minutes(3, "", own)
	require.Equal(b.t, pilot.Applied{Digest: digest, Rung: pilot.Rung{Mode: pilot.Live}}, b.policy("general").applied())
	require.Equal(b.t, "Watching", b.pilot().Status.Phase)
}

// versions are those of the policies: what nobody wrote keeps them.
func (b *bench) versions() (list []string) {
	for _, name := range []string{"general", "general-candidate"} {
		if h := b.policy(name); h.object != nil {
			list = append(list, name+" "+h.object.GetResourceVersion())
		}
	}
	return list
}

var away = apierrors.NewServiceUnavailable("gone")

// TestFaultsInEachPhase: a fault that passes holds the loop up, and no more.
func TestFaultsInEachPhase(t *testing.T) {
	for name, hit := range map[string]func(*bench, pilot.Phase){
		"killed": func(b *bench, _ pilot.Phase) { b.restart() },
		"API server gone": func(b *bench, phase pilot.Phase) {
			before := b.versions()
			b.calls.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return away
			}
			require.Error(b.t, b.step(), phase)
			b.calls.Get = nil
			b.calls.SubResourceUpdate = func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				return away
			}
			b.now = b.now.Add(time.Hour)
			_ = b.step() // there may be nothing to write
			b.calls.SubResourceUpdate = nil
			require.Equal(b.t, before, b.versions(), "%s: what is not in the status is not carried out", phase)
		},
		"clock back": func(b *bench, phase pilot.Phase) {
			before := b.versions()
			b.now = b.now.Add(-2 * time.Minute)
			require.NoError(b.t, b.step())
			o := b.pilot()
			require.Equal(b.t, string(phase), o.Status.Phase)
			require.Contains(b.t, strings.Join(o.Status.Reasons, "; "), "the clock went back by", phase)
			require.Equal(b.t, before, b.versions(), phase)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "killed" {
				t.Skip("a step on one goroutine: the race detector has nothing to find")
			}
			for range rounds(t) {
				b, in := newBench(t), []string{}
				b.walk(func(phase pilot.Phase) { in = append(in, string(phase)); hit(b, phase) })
				require.Equal(t, []string{"Recording", "Training", "Judging", "AwaitingApproval", "Shadow", "Canary", "Live", "Watching"}, in)
			}
		})
	}
}

// TestFaultsOfWork: a training or judgement that cannot be done ends with the reason, and puts nothing in the cluster.
func TestFaultsOfWork(t *testing.T) {
	if testing.Short() {
		t.Skip("TestJob has the same goroutines under the race detector")
	}
	cut := func(b *bench) {
		files, err := filepath.Glob(filepath.Join(b.r.folder(b.pilot()), segmentsDir, "events", "*.gz"))
		require.NoError(b.t, err)
		require.NotEmpty(b.t, files)
		for _, name := range files {
			info, err := os.Stat(name)
			require.NoError(b.t, err)
			require.NoError(b.t, os.Truncate(name, info.Size()/2))
		}
	}
	// A file in the place of the folder takes no file, as a volume that is full.
	full := func(b *bench) {
		name := filepath.Join(b.r.folder(b.pilot()), "checkpoints")
		require.NoError(b.t, os.RemoveAll(name))
		require.NoError(b.t, os.WriteFile(name, nil, 0o600))
	}
	for _, c := range []struct {
		name, want string
		in         pilot.Phase // the fault comes before its work begins
		fault      func(*bench)
	}{
		{"trace cut off while it trains", "unexpected EOF", pilot.Training, cut},
		{"trace cut off while it judges", "unexpected EOF", pilot.Judging, cut},
		{"no room to train", "not a directory", pilot.Training, full},
		{"policy in force gone", "no such file", pilot.Judging, func(b *bench) {
			require.NoError(b.t, os.RemoveAll(filepath.Join(b.r.folder(b.pilot()), "policies")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range rounds(t) {
				b := newBench(t)
				b.record()
				require.NoError(t, b.step())
				b.idle()
				require.NoError(t, b.step())
				if c.in == pilot.Judging {
					b.until(pilot.Training)
					b.idle() // what comes of it is not looked at before the next step
				}
				c.fault(b)
				b.until(c.in)
				b.idle()
				o := b.until(pilot.Recording)
				require.Contains(t, strings.Join(o.Status.Reasons, "; "), c.want)
				require.Nil(t, b.policy("general-candidate").object)
				require.Equal(t, pilot.Shadow, b.policy("general").applied().Mode)
				require.Empty(t, o.Status.Candidate)
				for range 5 {
					b.now = b.now.Add(time.Hour)
					require.NoError(t, b.step())
				}
				require.Equal(t, "Recording", b.pilot().Status.Phase, "it rests until the schedule")
			}
		})
	}
}

// TestNoRoomForSegments: a day that cannot be kept holds the loop up, with the reason; with room again it is made up for.
func TestNoRoomForSegments(t *testing.T) {
	for range rounds(t) {
		b := newBench(t)
		require.NoError(t, b.step()) // makes the folder
		events := filepath.Join(b.r.folder(b.pilot()), segmentsDir, "events")
		require.NoError(t, os.Remove(events))
		require.NoError(t, os.WriteFile(events, nil, 0o600))
		b.record()
		for range 5 {
			b.now = b.now.Add(time.Minute)
			require.NoError(t, b.step())
			b.idle()
		}
		o := b.pilot()
		require.Equal(t, "Recording", o.Status.Phase, "trained on nothing")
		recording := conditionOf(o, v1alpha1.ConditionRecording)
		require.Equal(t, "NotWritten", recording.Reason, recording.Message)
		require.NoError(t, os.Remove(events))
		require.NoError(t, os.Mkdir(events, 0o750))
		for range 12 {
			b.now = b.now.Add(time.Second)
			require.NoError(t, b.step())
			b.idle()
		}
		require.Contains(t, conditionOf(b.pilot(), v1alpha1.ConditionRecording).Message, "5 days are kept, the last 2026-11-05", fmt.Sprint(b.r.loops["general"].record.List()))
		require.NotEqual(t, "Recording", b.pilot().Status.Phase)
	}
}
