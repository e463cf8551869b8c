package sigma

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	upstreamv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	_ "github.com/sigma-scheduler/sigma/plugins/apis/config/scheme" // fills in Sigma's arguments
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// configured reads a configuration with one profile as kube-scheduler does.
func configured(t *testing.T, text string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- " + text + "\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := options.LoadConfigFromFile(klog.Background(), file)
	require.NoError(t, err)
	return c
}

// bindings makes a fake cluster enter bindings into its pods.
func bindings(client *fake.Clientset) {
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		b := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		object, err := client.Tracker().Get(action.GetResource(), b.Namespace, b.Name)
		if err != nil {
			return true, nil, err
		}
		bound := object.(*v1.Pod).DeepCopy()
		bound.Spec.NodeName = b.Target.Name
		return true, b, client.Tracker().Update(action.GetResource(), bound, b.Namespace)
	})
}

// kube-scheduler's cycle of a pod group reserves its pods, takes all of that back, and
// reserves them again. Each of them is one decision, which holds.
func TestPodGroupCycleOfKubeScheduler(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.GenericWorkload: true, features.GangScheduling: true,
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	c := configured(t, `{plugins: {multiPoint: {enabled: [{name: Sigma, weight: 2000}]}}, pluginConfig: [{name: Sigma, args: {appLabel: app, decisionLog: `+log+`}}]}`)
	client := fake.NewClientset(node("a", 8).Obj(), node("b", 8).Obj(), st.MakePodGroup().Namespace("default").Name("gang").MinCount(3).Obj())
	bindings(client)
	shared := informers.NewSharedInformerFactory(client, 0)
	var sigma *Plugin
	create := func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		var err error
		sigma, err = build(ctx, args, h, nil)
		return sigma, err
	}
	s, err := scheduler.New(ctx, client, shared, nil, profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithProfiles(c.Profiles...), scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: create}),
		scheduler.WithPodInitialBackoffSeconds(0), scheduler.WithPodMaxBackoffSeconds(0))
	require.NoError(t, err)
	sigma.engine.SetPolicy(ledger.Primary, shipped(t, "hand-k0"))
	sigma.engine.SetDeclared(nil)
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	require.NoError(t, s.WaitForHandlersSync(ctx))
	go s.Run(ctx)

	run := func(pods ...*v1.Pod) {
		t.Helper()
		for _, p := range pods {
			p.Spec.SchedulerName = v1.DefaultSchedulerName
			_, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		for _, p := range pods {
			require.Eventually(t, func() bool {
				now, err := client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
				return err == nil && now.Spec.NodeName != ""
			}, 20*time.Second, 5*time.Millisecond, p.Name)
		}
	}
	var gang []*v1.Pod
	for i := range 3 {
		gang = append(gang, pod(fmt.Sprint("web-", i), "web").PodGroupName("gang").Obj())
	}
	run(gang...)
	run(pod("after", "db").Obj()) // its cycle enters what came in
	end()
	require.NoError(t, sigma.engine.Close())

	require.Empty(t, ledgertest.Events(t, log, ledger.KindFailed))
	require.Len(t, ledgertest.Events(t, log, ledger.KindDecide), 4)
	v := ledgertest.Verify(t, log)
	require.Equal(t, map[string]int{ledger.CausePolicy: 4}, v.Causes)
	require.Equal(t, 4, v.Agreed)
}

// A binder is a Bind plugin of somebody else.
type binder struct {
	name  string
	binds bool // else it leaves the pod to the next
	asked *[]string
}

func (b *binder) Name() string { return b.name }

func (b *binder) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	*b.asked = append(*b.asked, b.name)
	if b.binds {
		return nil
	}
	return fwk.NewStatus(fwk.Skip)
}

// Upstream's and Sigma's, which note that they are asked.
type (
	askedDefault struct {
		fwk.BindPlugin
		asked *[]string
	}
	askedSigma struct {
		*Plugin
		asked *[]string
	}
)

func (b askedDefault) Bind(ctx context.Context, state fwk.CycleState, p *v1.Pod, node string) *fwk.Status {
	*b.asked = append(*b.asked, b.Name())
	return b.BindPlugin.Bind(ctx, state, p, node)
}

func (b askedSigma) Bind(ctx context.Context, state fwk.CycleState, p *v1.Pod, node string) *fwk.Status {
	*b.asked = append(*b.asked, b.Name())
	return b.Plugin.Bind(ctx, state, p, node)
}

// bindersOf runs the Bind plugins of a profile on one pod, and gives those that were
// asked. The one named binds the pod, if it is asked, the others of X and Z leave it.
func bindersOf(t *testing.T, by *schedulerconfig.KubeSchedulerProfile, binds string) []string {
	t.Helper()
	var asked []string
	client := fake.NewClientset(pod("web-1", "web").Obj())
	bindings(client)
	registry := frameworkplugins.NewInTreeRegistry()
	registry[defaultbinder.Name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p, err := defaultbinder.New(ctx, args, h)
		return askedDefault{p.(fwk.BindPlugin), &asked}, err
	}
	registry[Name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p, err := build(ctx, args, h, nil)
		require.NoError(t, err)
		return askedSigma{p, &asked}, nil
	}
	for _, name := range []string{"X", "Z"} {
		registry[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return &binder{name, name == binds, &asked}, nil
		}
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	shared := informers.NewSharedInformerFactory(client, 0)
	f, err := frameworkruntime.NewFramework(ctx, registry, by,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(shared),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}), frameworkruntime.WithSnapshotSharedLister(internalcache.NewEmptySnapshot()))
	require.NoError(t, err)
	status := f.RunBindPlugins(ctx, framework.NewCycleState(), pod("web-1", "web").Obj(), "a")
	require.True(t, status.IsSuccess() || status.IsSkip(), "%v", status)
	return asked
}

// Sigma binds in the place of DefaultBinder: whoever a profile without Sigma asks before
// DefaultBinder is asked before Sigma.
func TestBindersOfOthers(t *testing.T) {
	multi := func(plugins string) string { return "{plugins: {multiPoint: " + plugins + "}}" }
	with := func(plugins, bind string) string {
		return "{plugins: {multiPoint: " + plugins + ", bind: " + bind + "}}"
	}
	const sigma, off = "{enabled: [{name: Sigma}]}", ", disabled: [{name: DefaultBinder}]}"
	for _, tt := range []struct {
		name, profile string
		want          string
	}{
		{"Sigma alone", multi(sigma), "Sigma"},
		{"DefaultBinder off", multi("{enabled: [{name: Sigma}]" + off), "Sigma"},
		{"others after it, DefaultBinder off", multi("{enabled: [{name: Sigma}, {name: X}]" + off), "X Sigma"},
		{"others before it, DefaultBinder off", multi("{enabled: [{name: X}, {name: Sigma}]" + off), "X Sigma"},
		{"DefaultBinder last", multi("{enabled: [{name: Sigma}, {name: X}, {name: DefaultBinder}]" + off), "X Sigma"},
		{"DefaultBinder before it", multi("{enabled: [{name: X}, {name: DefaultBinder}, {name: Sigma}]" + off), "X Sigma"},
		{"DefaultBinder first, as by default: others are never asked", multi("{enabled: [{name: Sigma}, {name: X}]}"), "Sigma"},
		{"others by bind, DefaultBinder last", with("{enabled: [{name: Sigma}]"+off, "{enabled: [{name: X}, {name: Z}, {name: DefaultBinder}]}"), "X Z Sigma"},
		{"the same, switched off there", with(sigma, "{enabled: [{name: X}, {name: DefaultBinder}]"+off), "X Sigma"},
		{"others by bind alone, DefaultBinder off", with(sigma, "{enabled: [{name: X}]"+off), "X Sigma"},
		{"others at both places", with("{enabled: [{name: Sigma}, {name: X}]}", "{enabled: [{name: X}]}"), "X Sigma"},
		{"others at both places, DefaultBinder too", with("{enabled: [{name: Sigma}, {name: X}]}", "{enabled: [{name: X}, {name: DefaultBinder}]}"), "X Sigma"},
		{"others by bind after DefaultBinder", with(sigma, "{enabled: [{name: X}]}"), "Sigma"},
		{"one of each", with("{enabled: [{name: Sigma}, {name: X}]"+off, "{enabled: [{name: Z}, {name: DefaultBinder}]}"), "X Z Sigma"},
		{"all off", with(sigma, "{enabled: [{name: X}, {name: DefaultBinder}], disabled: [{name: '*'}]}"), "X DefaultBinder"},
		{"all off but Sigma", with(sigma, "{enabled: [{name: X}, {name: Sigma}], disabled: [{name: '*'}]}"), "X Sigma"},
		{"Sigma off", with(sigma, "{disabled: [{name: Sigma}]}"), "DefaultBinder"},
		{"Sigma named first", with(sigma, "{enabled: [{name: Sigma}, {name: X}]"+off), "Sigma"},
		{"Sigma named last", with(sigma, "{enabled: [{name: X}, {name: Sigma}]"+off), "X Sigma"},
		{"Sigma named last, DefaultBinder elsewhere", with(sigma, "{enabled: [{name: X}, {name: Sigma}]}"), "X Sigma"},
		{"Sigma named between", with(sigma, "{enabled: [{name: X}, {name: Sigma}, {name: Z}, {name: DefaultBinder}]"+off), "X Sigma"},
		{"Sigma for nothing else", "{plugins: {bind: {enabled: [{name: X}, {name: Sigma}], disabled: [{name: DefaultBinder}]}}}", "X Sigma"},
		{"no Sigma", multi("{enabled: [{name: X}]" + off), "X"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configured(t, tt.profile)
			require.Equal(t, strings.Fields(tt.want), bindersOf(t, &c.Profiles[0], ""))
			first, _, _ := strings.Cut(tt.want, " ")
			require.Equal(t, []string{first}, bindersOf(t, &c.Profiles[0], first), "who binds leaves nothing to others")

			// As the scheduler's --write-config-to has it, and read again.
			text, err := runtime.Encode(schedscheme.Codecs.LegacyCodec(upstreamv1.SchemeGroupVersion), c)
			require.NoError(t, err)
			again, err := runtime.Decode(schedscheme.Codecs.UniversalDecoder(), text)
			require.NoError(t, err)
			require.Equal(t, strings.Fields(tt.want), bindersOf(t, &again.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0], ""))
		})
	}
}
