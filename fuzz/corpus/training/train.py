"""A fine-tuning."""
MODEL = 'lab/small'
p.add_argument('--max-len', '-l', type=int, default=256, help='x (y')
model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16,
    quantization_config=BitsAndBytesConfig(load_in_4bit=True))
peft = LoraConfig(r=8, lora_dropout=0.05, target_modules=['q_proj', "v_proj"])
args = SFTConfig(max_length=512, learning_rate=2e-4, output_dir=f'{x}/y')
