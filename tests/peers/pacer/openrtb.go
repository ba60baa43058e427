package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"log"
	"net/http"
	"strconv"
	"strings"
)

// The same campaigns, asked in JSON of OpenRTB over net/http.
//
// In its favour: a campaign is found by the number in the name of the site or app, there are no creatives that must fit
// a size, no lists of what is blocked, no currencies and no deals, and whoever asks shows no token.

// Sites and apps that campaigns buy, as the load has them.
const placesBought = 120

type bidRequest struct {
	ID  string `json:"id"`
	Imp []struct {
		ID       string  `json:"id"`
		BidFloor float64 `json:"bidfloor"`
		Pmp      struct {
			PrivateAuction int `json:"private_auction"`
		} `json:"pmp"`
	} `json:"imp"`
	Site struct {
		Domain string `json:"domain"`
	} `json:"site"`
	App struct {
		Bundle string `json:"bundle"`
	} `json:"app"`
}

type bid struct {
	ID      string   `json:"id"`
	ImpID   string   `json:"impid"`
	Price   float64  `json:"price"`
	BURL    string   `json:"burl"`
	Adm     string   `json:"adm"`
	ADomain []string `json:"adomain"`
	CID     string   `json:"cid"`
	CrID    string   `json:"crid"`
}

type seatBid struct {
	Bid []bid `json:"bid"`
}

type bidResponse struct {
	ID      string    `json:"id"`
	Cur     string    `json:"cur"`
	SeatBid []seatBid `json:"seatbid"`
}

func (s *server) serveHTTP(address string) error {
	http.HandleFunc("/openrtb/2.6/bids", s.auction)
	http.HandleFunc("/openrtb/2.6/billing", s.billing)
	return http.ListenAndServe(address, nil)
}

func (s *server) auction(w http.ResponseWriter, r *http.Request) {
	var request bidRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var bids []bid
	for _, imp := range request.Imp {
		number := placeOf(request.Site.Domain, request.App.Bundle)
		c := s.campaign(number)
		if c == nil || imp.Pmp.PrivateAuction == 1 || imp.BidFloor*1000 > float64(c.price) {
			continue
		}
		price, reason := c.reserve(0)
		if reason != 0 {
			continue
		}
		var token [tokenBytes]byte
		binary.LittleEndian.PutUint32(token[8:], uint32(number))
		binary.LittleEndian.PutUint32(token[12:], price)
		id := base64.RawURLEncoding.EncodeToString(token[:])
		bids = append(bids, bid{
			ID: id, ImpID: imp.ID, Price: float64(price) / 1000,
			BURL:    "http://bench/openrtb/2.6/billing?token=" + id + "&price=${AUCTION_PRICE}",
			Adm:     `<a href="https://shoes.example/?c=bench"><img src="https://cdn.shoes.example/a.png"></a>`,
			ADomain: []string{"shoes.example"}, CID: strconv.FormatUint(number, 10), CrID: "c",
		})
	}
	if len(bids) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	// The load reads the URL as it stands there.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(bidResponse{ID: request.ID, Cur: "USD", SeatBid: []seatBid{{Bid: bids}}}); err != nil {
		log.Printf("could not answer: %v", err)
	}
}

// placeOf is the number of the campaign that buys a site-7.example or a com.example.app7; 0 for none.
func placeOf(domain, bundle string) uint64 {
	digits := strings.TrimPrefix(bundle, "com.example.app")
	if domain != "" {
		digits = strings.TrimSuffix(strings.TrimPrefix(domain, "site-"), ".example")
	}
	place, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || place >= placesBought {
		return 0
	}
	return place + 1
}

func (s *server) billing(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	token, err := base64.RawURLEncoding.DecodeString(query.Get("token"))
	price, priceErr := strconv.ParseFloat(query.Get("price"), 64)
	if err != nil || priceErr != nil || s.win(token, uint64(price*1000)) != outcomeTaken {
		http.Error(w, "no such bid", http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"outcome":"taken"}`))
}
