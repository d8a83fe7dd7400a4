// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/examples/operator/webv1"
)

// TestStatus: the status follows the Secrets with each cache, from a missing one to its deletion, and has no data.
func TestStatus(t *testing.T) {
	for _, cache := range []Cache{Refwatch, Stock} {
		t.Run(string(cache), func(t *testing.T) {
			r := newRig(t)
			r.createSecret("tls")
			r.createSite("shop", "tls", "db")
			stop := r.start(Options{Cache: cache})
			r.wantSite("shop", "NotFound", "db: NotFound", nil)
			r.createSecret("db")
			before := r.wantSite("shop", "SecretsRead", "", nil)
			rotated := secretOf("tls", canary+"-2")
			r.must(r.client.Update(t.Context(), rotated))
			after := r.wantSite("shop", "SecretsRead", "", func(site *webv1.Site) bool {
				return site.Status.Secrets[0].ResourceVersion == rotated.ResourceVersion
			})
			if got, want := after.Status.Secrets[1], before.Status.Secrets[1]; got != want {
				t.Errorf("Secret that was not rotated: got %+v, want %+v", got, want)
			}
			if text, err := json.Marshal(after); err != nil || strings.Contains(string(text), canary) {
				t.Errorf("status: got error %v and %s, want no data of a Secret", err, text)
			}
			r.must(r.client.Delete(t.Context(), rotated))
			r.wantSite("shop", "NotFound", "tls: NotFound", nil)
			r.must(stop())
		})
	}
}

// TestForbiddenSecret: with refwatch, a Secret that the server refuses fails its Site only. After a grant, the Site is
// reconciled.
func TestForbiddenSecret(t *testing.T) {
	r := newRig(t)
	r.createSecret("tls")
	r.createSecret("vault")
	r.createSite("shop", "tls")
	r.createSite("bank", "tls", "vault")
	r.allowSecrets("tls")
	r.start(Options{})
	r.wantSite("shop", "SecretsRead", "", nil)
	bank := r.wantSite("bank", "Forbidden", "vault: Forbidden", nil)
	if got := bank.Status.Secrets; got[0].ResourceVersion == "" || got[1].Reason != "Forbidden" {
		t.Errorf("Secrets of bank: got %+v, want that tls was read and vault was not", got)
	}
	rotated := secretOf("tls", "2")
	r.must(r.client.Update(t.Context(), rotated))
	r.wantSite("shop", "SecretsRead", "", func(site *webv1.Site) bool {
		return site.Status.Secrets[0].ResourceVersion == rotated.ResourceVersion
	})
	r.allowSecrets("tls", "vault")
	r.wantSite("bank", "SecretsRead", "", nil)
}

// TestStockNeedsAllSecrets: with the stock cache and rights for the named Secrets, the manager ends, and no Site is
// reconciled.
func TestStockNeedsAllSecrets(t *testing.T) {
	r := newRig(t)
	r.createSecret("tls")
	r.createSite("shop", "tls")
	r.allowSecrets("tls")
	mgr, err := New(rest.AddUserAgent(r.server.Config(), agent), Options{Cache: Stock, CacheSyncTimeout: time.Second})
	r.must(err)
	if err := mgr.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "timed out waiting for cache to be synced") {
		t.Errorf("Start: got error %v, want that the cache has not synced", err)
	}
	refused := 0
	for _, request := range r.server.Requests() {
		if request.Subresource == "status" {
			t.Errorf("request: got %s %s, want no write of a status", request.Verb, request.Path)
		}
		if request.Resource == "secrets" && request.Name == "" && request.Code == http.StatusForbidden {
			refused++
		}
	}
	if refused == 0 {
		t.Error("requests for all Secrets: got none that was refused, want some")
	}
}

func TestUnknownCache(t *testing.T) {
	if _, err := New(&rest.Config{}, Options{Cache: "none"}); err == nil || !strings.Contains(err.Error(), `cache "none" is unknown`) {
		t.Errorf("New: got error %v, want one about the cache", err)
	}
}
