package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// An Access holds the settings to reach a cluster.
type Access struct {
	Kubeconfig string        // path; "": $KUBECONFIG, ~/.kube/config, or the pod that this process runs in
	Context    string        // of the kubeconfig; "": its current one
	Timeout    time.Duration // of one response
}

// A Client reads a cluster.
type Client struct {
	// Seen, if set, is called with the number of objects read so far.
	Seen func(objects int)
	seen int
	// Lenient reads disruption budgets and present use too. A kind that the account may not list, and metrics that no
	// server serves, are then in [Picture.Missing] in place of an error.
	Lenient bool

	config  *rest.Config
	codecs  serializer.CodecFactory
	timeout time.Duration
}

// Connect prepares a client. It does not contact the cluster yet.
func Connect(a Access) (*Client, error) {
	config, err := a.Config()
	if err != nil {
		return nil, err
	}
	return NewClient(config, a.Timeout)
}

// Config returns the configuration of a command line's client. It silences the client library, whose
// messages are for operators of servers.
func (a Access) Config() (*rest.Config, error) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: a.Context, ClusterInfo: clientcmdapi.Cluster{},
	})
	config, err := loaded.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, noKubeconfig()
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = "sigma"
	config.WarningHandler = rest.NoWarnings{}
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// noKubeconfig is the error where nothing configures a client; it names the first file of KUBECONFIG that does not exist.
func noKubeconfig() error {
	list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if list == "" {
		return errors.New("no kubeconfig: give --kubeconfig, set KUBECONFIG, or put one in ~/.kube/config")
	}
	for _, file := range filepath.SplitList(list) {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no kubeconfig: KUBECONFIG names %s, which does not exist", file)
		}
	}
	return fmt.Errorf("no kubeconfig: KUBECONFIG names %s, which has no cluster", list)
}

// NewClient prepares a client of a cluster that others have connected to; timeout is that of one
// response.
func NewClient(config *rest.Config, timeout time.Duration) (*Client, error) {
	// Only the kinds that are read: a scheme of all kinds would be most of the client.
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, autoscalingv2.AddToScheme, resourcev1.AddToScheme,
		policyv1.AddToScheme, storagev1.AddToScheme, metricsv1beta1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return &Client{config: config, codecs: serializer.NewCodecFactory(scheme), timeout: timeout}, nil
}

// of returns the client of one group.
func (c *Client) of(group schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion = &group
	config.NegotiatedSerializer = c.codecs.WithoutConversion()
	config.APIPath = "/apis"
	if group.Group == "" {
		config.APIPath = "/api"
	}
	if group != v1alpha1.SchemeGroupVersion && group.Group != metricsGroup { // encoded as JSON only, or by some servers
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	return rest.RESTClientFor(config)
}

// pageSize is the number of objects in one request to the API server.
const pageSize = 500

// list reads all objects of a resource, page by page.
func list[L, T any, P interface {
	*L
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, group schema.GroupVersion, resource, fields string, items func(P) []T) ([]*T, error) {
	client, err := c.of(group)
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: fields}
	var all []*T
	for {
		page := P(new(L))
		err := c.ask(ctx, client.Get().Resource(resource).VersionedParams(&options, metav1.ParameterCodec), page)
		if apierrors.IsResourceExpired(err) && options.Continue != "" { // it took too long: read all at once instead
			all, options = nil, metav1.ListOptions{FieldSelector: fields}
			continue
		}
		if err != nil {
			return nil, c.explain("list", resource, err)
		}
		list := items(page)
		for i := range list {
			all = append(all, &list[i])
		}
		if c.seen += len(list); c.Seen != nil {
			c.Seen(c.seen)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// get reads one object.
func (c *Client) get(ctx context.Context, group schema.GroupVersion, resource, namespace, name string, into runtime.Object) error {
	client, err := c.of(group)
	if err != nil {
		return err
	}
	err = c.ask(ctx, client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name), into)
	return c.explain("get", resource, err)
}

// Raw reads one object of a kind that is not in this package, as JSON.
func (c *Client) Raw(ctx context.Context, group schema.GroupVersion, resource, namespace, name string) ([]byte, error) {
	client, err := c.of(v1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	result := client.Get().AbsPath("/apis", group.Group, group.Version, "namespaces", namespace, resource, name).Do(ctx)
	data, err := result.Raw()
	if err != nil {
		if err = result.Error(); context.Cause(ctx) == errTimeout { //nolint:errorlint // the cause is this very one
			err = errTimeout
		}
		return nil, c.explain("get", resource, err)
	}
	return data, nil
}

// ask waits for one response, at most for the timeout.
func (c *Client) ask(ctx context.Context, request *rest.Request, into runtime.Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	err := request.Do(ctx).Into(into)
	if err != nil && context.Cause(ctx) == errTimeout { //nolint:errorlint // the cause is this very one
		return errTimeout
	}
	return err
}

var errTimeout = errors.New("no answer in time")

// explain adds the missing right to an error, or that the server does not
// answer.
func (c *Client) explain(verb, resource string, err error) error {
	var at *url.Error
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errTimeout):
		return fmt.Errorf("%s %s: the API server %s did not answer within %v", verb, resource, c.config.Host, c.timeout)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s %s: forbidden: the account needs the verb %s on %s in all namespaces (%w)", verb, resource, verb, resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s %s: the API server %s does not accept the credentials (%w)", verb, resource, c.config.Host, err)
	case errors.As(err, &at), errors.As(err, &network):
		return fmt.Errorf("%s %s: the API server %s cannot be reached: %w", verb, resource, c.config.Host, err)
	}
	return fmt.Errorf("%s %s: %w", verb, resource, err)
}

// serves reports whether the API server has Sigma's API.
func (c *Client) serves(ctx context.Context) (bool, error) {
	client, err := c.of(v1alpha1.SchemeGroupVersion)
	if err != nil {
		return false, err
	}
	err = c.ask(ctx, client.Get().AbsPath("/apis", v1alpha1.GroupName, v1alpha1.SchemeGroupVersion.Version), &metav1.APIResourceList{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, c.explain("get", "/apis/"+v1alpha1.SchemeGroupVersion.String(), err)
}
