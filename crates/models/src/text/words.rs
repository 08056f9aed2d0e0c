//! The word lists of the story grammar. Data only.

/// Beginnings of invented names.
pub const NAME_START: &[&str] = &[
    "Al", "Bra", "Cor", "Da", "El", "Fen", "Gar", "Hal", "Is", "Jo", "Kel", "Lu", "Mar", "Nor",
    "Or", "Pa", "Quin", "Ros", "Sel", "Tov", "Ul", "Ver", "Wil", "Xan", "Yor", "Zel", "Bel",
    "Cas", "Dor", "Eth", "Fio", "Gwen", "Hol", "Ing", "Jas", "Kat", "Lin", "Mo", "Nel", "Os",
];
/// Middles of invented names.
pub const NAME_MIDDLE: &[&str] = &[
    "a", "ba", "di", "e", "fa", "i", "ka", "la", "li", "mi", "na", "no", "o", "ra", "ri", "ru",
    "sa", "si", "ta", "ti", "va", "ve", "", "", "",
];
/// Ends of invented first names.
pub const NAME_END: &[&str] = &[
    "bel", "da", "dan", "dric", "fa", "gard", "la", "lia", "line", "lo", "ma", "mir", "mund",
    "na", "nor", "ra", "ric", "rin", "sa", "son", "ta", "th", "tha", "ton", "va", "vin", "wen",
    "win",
];
/// Ends of invented family names.
pub const FAMILY_END: &[&str] = &[
    "brook", "dale", "field", "ford", "gate", "grove", "ham", "hart", "hill", "hurst", "lake",
    "ley", "man", "mere", "mont", "more", "quist", "ridge", "sen", "shaw", "stein", "stone",
    "strand", "strom", "well", "wick", "wood", "worth", "ovic", "escu",
];
/// Ends of invented places.
pub const PLACE_END: &[&str] = &[
    "burg", "bury", "by", "dorf", "fjord", "haven", "holm", "keld", "lund", "minster", "mouth",
    "nia", "pool", "port", "stad", "thorpe", "ton", "vale", "ville", "wich",
];
/// Trades.
pub const TRADES: &[&str] = &[
    "apothecary", "archivist", "astronomer", "baker", "beekeeper", "blacksmith", "bookbinder",
    "botanist", "carpenter", "cartographer", "clockmaker", "cook", "detective", "doctor",
    "engineer", "ferryman", "fisherman", "gardener", "glassblower", "innkeeper", "jeweller",
    "judge", "librarian", "lighthouse keeper", "locksmith", "mathematician", "mechanic",
    "merchant", "midwife", "miller", "musician", "nurse", "painter", "pilot", "poet", "postman",
    "potter", "printer", "programmer", "sailor", "schoolteacher", "shepherd", "soldier",
    "surveyor", "tailor", "telegraph operator", "translator", "watchman", "weaver", "widow",
];
/// Things one can find, carry and lose.
pub const THINGS: &[&str] = &[
    "accordion", "almanac", "anchor", "atlas", "barometer", "basket", "bell", "bicycle",
    "blanket", "boat", "book", "bottle", "bracelet", "bridge", "bucket", "button", "cabinet",
    "camera", "candle", "carriage", "chair", "chest", "clock", "coat", "coin", "compass",
    "contract", "crown", "cup", "diary", "door", "drawing", "drum", "engine", "envelope",
    "feather", "fence", "flag", "flute", "fountain", "garden", "glove", "hammer", "harp", "hat",
    "helmet", "horse", "hourglass", "instrument", "jar", "journal", "kettle", "key", "kite",
    "knife", "ladder", "lamp", "lantern", "ledger", "letter", "machine", "magnet", "manuscript",
    "map", "mask", "medal", "microscope", "mirror", "necklace", "needle", "notebook", "orchard",
    "package", "painting", "parcel", "pencil", "photograph", "piano", "picture", "pigeon",
    "pocket", "puzzle", "quilt", "radio", "recipe", "ribbon", "ring", "rope", "sail", "scarf",
    "seed", "shovel", "signal", "sketch", "spoon", "stamp", "staircase", "statue", "suitcase",
    "table", "telescope", "theatre", "ticket", "tower", "train", "trumpet", "umbrella", "valve",
    "vase", "violin", "wagon", "wallet", "watch", "wheel", "whistle", "window", "workshop",
    "wrench",
];
/// Qualities of things and people.
pub const QUALITIES: &[&str] = &[
    "ancient", "bitter", "borrowed", "brass", "bright", "broken", "careful", "cheerful", "clumsy",
    "copper", "crooked", "curious", "damp", "dangerous", "delicate", "distant", "dusty", "eager",
    "empty", "enormous", "faded", "familiar", "famous", "fragile", "frozen", "generous", "gentle",
    "golden", "half-finished", "heavy", "hidden", "honest", "humble", "invisible", "jealous",
    "lonely", "lucky", "marvellous", "mysterious", "narrow", "nervous", "noisy", "ordinary",
    "patient", "peculiar", "perfect", "pleasant", "polished", "precious", "proud", "quiet",
    "rare", "restless", "rusty", "secret", "serious", "shallow", "silent", "silver", "simple",
    "sleepy", "slender", "splendid", "strange", "stubborn", "sudden", "thirsty", "tiny", "tired",
    "transparent", "unfinished", "useful", "velvet", "violent", "warm", "weary", "wicked",
    "wooden", "worn-out", "yellow",
];
/// Verbs for what people do to things, in the past tense.
pub const DEEDS: &[&str] = &[
    "admired", "assembled", "balanced", "borrowed", "bought", "broke", "buried", "burned",
    "carried", "caught", "cleaned", "collected", "copied", "counted", "covered", "delivered",
    "described", "designed", "discovered", "dropped", "emptied", "examined", "exchanged",
    "filled", "followed", "forgot", "found", "gathered", "hid", "ignored", "imagined",
    "inherited", "inspected", "invented", "kept", "lifted", "locked", "lost", "measured",
    "mended", "noticed", "opened", "ordered", "painted", "photographed", "polished", "promised",
    "protected", "recognised", "refused", "remembered", "repaired", "returned", "sold", "stole",
    "studied", "threw away", "touched", "trusted", "understood", "unlocked", "unwrapped",
    "watched", "won",
];
/// Places within a town or landscape.
pub const SPOTS: &[&str] = &[
    "at the edge of the forest", "behind the old mill", "below the bridge", "beside the river",
    "between two hills", "by the harbour wall", "in a narrow street", "in the cellar",
    "in the market square", "in the mountains", "in the railway station", "in the town hall",
    "near the lighthouse", "on a frozen lake", "on the eastern shore", "on the ferry",
    "on the third floor", "outside the cathedral", "under the kitchen floor",
    "under the oak tree", "upstairs", "within the city walls", "far from the road",
    "inside the observatory",
];
/// Phrases of time.
pub const TIMES: &[&str] = &[
    "after breakfast", "at dawn", "at midnight", "before the storm", "during the festival",
    "early in the morning", "every Thursday", "in the autumn", "in the middle of the night",
    "long ago", "on a cold evening", "on the first day of spring", "one Sunday afternoon",
    "shortly before noon", "that same week", "the following winter", "three days later",
    "at once", "toward evening", "two years afterwards", "when the rain stopped",
    "when the bells rang",
];
/// Phrases for the manner in which something is said or done.
pub const MANNERS: &[&str] = &[
    "absently", "angrily", "calmly", "carefully", "cheerfully", "eventually", "gently",
    "gratefully", "hastily", "immediately", "nervously", "patiently", "politely", "proudly",
    "quickly", "quietly", "reluctantly", "sadly", "secretly", "silently", "slowly", "suddenly",
    "thoughtfully", "without a word",
];
/// Verbs of speech.
pub const SAID: &[&str] = &[
    "said", "asked", "whispered", "answered", "shouted", "murmured", "insisted", "replied",
    "explained", "laughed", "complained", "warned", "admitted", "repeated",
];
/// Abstract nouns.
pub const IDEAS: &[&str] = &[
    "ambition", "arithmetic", "beauty", "business", "chance", "courage", "curiosity", "danger",
    "distance", "education", "experience", "forgiveness", "freedom", "friendship", "gravity",
    "happiness", "history", "hunger", "imagination", "information", "justice", "kindness",
    "knowledge", "language", "memory", "music", "necessity", "patience", "possibility", "science",
    "silence", "sorrow", "temperature", "tradition", "weather", "wisdom",
];
/// Words beyond ASCII.
pub const FOREIGN: &[&str] = &[
    "café", "naïve", "Zürich", "Ångström", "São Paulo", "façade", "jalapeño", "smörgåsbord",
    "crème brûlée", "Łódź", "東京", "北京", "こんにちは", "Привет", "Москва", "ελπίδα", "Αθήνα", "שלום",
    "مرحبا", "한국어", "नमस्ते", "€", "½", "π ≈ 3.14159", "→", "🌙", "🚲", "…", "“quoted”", "–",
];
/// Names in code.
pub const IDENTIFIERS: &[&str] = &[
    "buffer", "cache", "config", "count", "current_index", "data", "file_name", "handler",
    "index", "input", "item", "key", "length", "max_value", "node", "offset", "output", "parser",
    "path", "queue", "request", "response", "result", "self.state", "size", "stream", "token",
    "total", "user_id", "value",
];
